"""The end of a panel of an attention: its sums [n][owners] turned to [owner][n], and the stores."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from rushlight.backends.llvm.attention_steps import Vectors
from rushlight.backends.llvm.context import Env, IndexEmitter, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.micro import turn_kernel
from rushlight.backends.llvm.pack import in_vectors, min_value
from rushlight.backends.llvm.puts import emit_stores
from rushlight.compiler.tile.ir import Axis, Store


class ResultEmitter:
    """Stores of one panel. `turned`: room for [columns][n], whole vectors along n."""

    def __init__(self, vectors: Vectors, owner: Axis) -> None:
        self.v, self.owner = vectors, owner
        lanes = vectors.schedule.lanes
        self.square = vectors.ctx.stack_array(vectors.element, lanes * lanes)

    def with_features(
        self, builder: ir.IRBuilder, stores: Sequence[Store], n: Axis, sums: ir.Value, env: Env,
        left: ir.Value, turned: ir.Value, factors: list[ir.Value] | None,
    ) -> None:  # fmt: skip
        """sums [n][columns], each column times its factor."""
        v, ctx, lanes = self.v, self.v.ctx, self.v.schedule.lanes
        width = ctx.int_expr(builder, n.extent, {})
        padded = builder.and_(builder.add(width, i64(lanes - 1)), i64(-lanes))
        for position, column in enumerate(v.columns()):
            with ctx.for_range(builder, i64(0), width, lanes) as feature:
                with ctx.for_range(builder, i64(0), i64(lanes)) as row:
                    value = v.load(builder, sums, v.at(builder, builder.add(feature, row), column))
                    if factors is not None:
                        value = builder.fmul(value, factors[position])
                    v.store(builder, value, self.square, builder.mul(row, i64(lanes)))
                to = builder.add(builder.mul(i64(column), padded), feature)
                turn = turn_kernel(ctx.module, lanes, v.dtype)
                builder.call(turn, [self.square, v.place(builder, turned, to), padded])
        rows = min_value(builder, left, i64(v.schedule.columns))
        with ctx.for_range(builder, i64(0), rows) as row:
            owner = IndexEmitter(ctx, builder, {}).op("add", env[self.owner.name], row)

            def put(column: ir.Value, mask: ir.Value | None) -> None:
                value = v.load(builder, turned, builder.add(builder.mul(row, padded), column))
                here = {**env, self.owner.name: owner, n.name: column}
                self._stores(builder, stores, here, Lanes(lanes, n, mask), value)

            in_vectors(ctx, builder, width, lanes, put)

    def of_owners(
        self,
        builder: ir.IRBuilder,
        stores: Sequence[Store],
        env: Env,
        left: ir.Value,
        value: object,
    ) -> None:
        """One number per owner; value(at) gives a vector of them."""
        v, ctx = self.v, self.v.ctx
        if not stores:
            return

        def put(at: ir.Value, mask: ir.Value | None) -> None:
            owner = IndexEmitter(ctx, builder, {}).op("add", env[self.owner.name], at)
            lanes = Lanes(v.schedule.lanes, self.owner, mask)
            found = value(at)  # type: ignore[operator]
            self._stores(builder, stores, {**env, self.owner.name: owner}, lanes, found)

        rows = min_value(builder, left, i64(v.schedule.columns))
        in_vectors(ctx, builder, rows, v.schedule.lanes, put)

    def store_row(
        self, builder: ir.IRBuilder, stores: Sequence[Store], env: Env, n: Axis,
        mask: ir.Value | None, value: ir.Value,
    ) -> None:  # fmt: skip
        """A vector along n; env holds all axes."""
        self._stores(builder, stores, env, Lanes(self.v.schedule.lanes, n, mask), value)

    def _stores(
        self, builder: ir.IRBuilder, stores: Sequence[Store], env: Env, lanes: Lanes,
        value: ir.Value,
    ) -> None:  # fmt: skip
        emit_stores(self.v.ctx, builder, stores, env, lanes, {self.v.acc: value})
