"""Reductions with lanes along the innermost `over` axis.

The elements of a chunk lie in blocks of 32; block after block is folded into 32 partials, which are
the lanes of 32/L registers. With several over axes the elements come in rows (of the innermost
axis) that begin and end inside blocks: such part blocks are masked, or done one by one.
"""

from __future__ import annotations

import llvmlite.ir as ir

from rushlight.backends.llvm.context import I64, Env, IndexEmitter, KernelContext, i64
from rushlight.backends.llvm.fold import Fold, States, over_chunks, tree_in_registers
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.monoid import Parts
from rushlight.backends.llvm.ops import splat
from rushlight.backends.llvm.values import ValueEmitter
from rushlight.compiler.tile.ir import PARTIALS, Reduce
from rushlight.ir.symint import Expr


class AcrossReduction:
    """One point of the kept axes."""

    def __init__(
        self, ctx: KernelContext, statement: Reduce, fold: Fold, total: int | Expr, count: int
    ) -> None:
        self.ctx, self.statement, self.fold, self.total = ctx, statement, fold, total
        self.count = count
        self.registers = PARTIALS // count
        self.inner = statement.over[-1]
        self.partials = States(fold, count, self.registers)

    def emit(self, env: Env) -> Parts:
        self.env = env
        elements = self.ctx.int_expr(self.ctx.builder, self.total, env)
        static = self.total if isinstance(self.total, int) else None
        (state,) = over_chunks(
            self.ctx, self.fold, static, elements, [1], lambda low, high: [self.chunk(low, high)]
        )
        return state

    def chunk(self, low: ir.Value, high: ir.Value) -> Parts:
        for r in range(self.registers):
            self.partials.store(i64(r), self.fold.identity(self.count))
        if len(self.statement.over) == 1:
            self.blocks(low, high, high, dict(self.env), i64(0))
        else:
            self.rows(low, high)
        parts = [self.partials.load(i64(r)) for r in range(self.registers)]
        return tree_in_registers(self.fold, parts, self.count)

    def rows(self, low: ir.Value, high: ir.Value) -> None:
        """The parts of rows of the innermost axis that lie in the chunk."""
        ctx, b = self.ctx, self.ctx.builder
        index = IndexEmitter(ctx, b, self.env)
        width = index.emit(self.inner.extent)
        last = index.op("add", high, index.op("add", width, i64(-1)))
        first, stop = (index.op("ufloordiv", x, width) for x in (low, last))
        with ctx.for_range(b, first, stop) as row:
            begin = b.mul(row, width)
            end = b.add(begin, width)
            part_low = b.select(b.icmp_signed(">", begin, low), begin, low)
            part_high = b.select(b.icmp_signed("<", end, high), end, high)
            env = unflatten(ctx, self.statement, self.env, row)
            aligned = b.and_(b.add(part_low, i64(PARTIALS - 1)), i64(-PARTIALS))
            head = b.select(b.icmp_signed("<", aligned, part_high), aligned, part_high)
            self.part_block(part_low, head, env, begin)
            self.blocks(head, part_high, part_high, env, begin)

    def blocks(
        self, low: ir.Value, high: ir.Value, end: ir.Value, env: Env, origin: ir.Value
    ) -> None:
        """Whole blocks from low (a multiple of 32, or = high), then the part block at the end."""
        ctx, b = self.ctx, self.ctx.builder
        whole = b.add(low, b.and_(b.sub(high, low), i64(-PARTIALS)))
        carried = [v for r in range(self.registers) for v in self.partials.load(i64(r))]
        with ctx.for_loop(b, low, whole, PARTIALS, carried) as loop:
            following: Parts = []
            for r in range(self.registers):
                at = b.add(loop.index, i64(r * self.count), flags=("nsw",))
                old = loop.carried[r * self.fold.size : (r + 1) * self.fold.size]
                following += self.fold.combine(old, self.elements(at, env, origin, None))
            loop.set_next(following)
        size = self.fold.size
        for r in range(self.registers):
            self.partials.store(i64(r), loop.results[r * size : (r + 1) * size])
        self.part_block(whole, end, env, origin)

    def part_block(self, low: ir.Value, high: ir.Value, env: Env, origin: ir.Value) -> None:
        """The elements low <= e < high of one block (none if low >= high)."""
        if self.ctx.target.avx512:
            self._masked_block(low, high, env, origin)
        else:
            self._single_elements(low, high, env, origin)

    def _masked_block(self, low: ir.Value, high: ir.Value, env: Env, origin: ir.Value) -> None:
        ctx, b = self.ctx, self.ctx.builder
        with ctx.for_range(b, low, high, PARTIALS) as first:
            block = b.and_(first, i64(-PARTIALS))
            lanes_type = ir.IntType(min(64, 8 * ctx.vector_bytes // self.count))
            begin, end = (
                splat(b, _narrow(b, b.sub(x, block), lanes_type), self.count) for x in (low, high)
            )
            for r in range(self.registers):
                numbers = list(range(r * self.count, (r + 1) * self.count))
                lanes = ir.Constant(ir.VectorType(lanes_type, self.count), numbers)
                mask = b.and_(b.icmp_signed(">=", lanes, begin), b.icmp_signed("<", lanes, end))
                at = b.add(block, i64(r * self.count), flags=("nsw",))
                old = self.partials.load(i64(r))
                new = self.fold.combine(old, self.elements(at, env, origin, mask))
                self.partials.store(i64(r), self.fold.select(mask, new, old))

    def _single_elements(self, low: ir.Value, high: ir.Value, env: Env, origin: ir.Value) -> None:
        ctx, b = self.ctx, self.ctx.builder
        single = self.partials.as_lanes(1)
        with ctx.for_range(b, low, high) as at:
            slot = b.and_(at, i64(PARTIALS - 1))
            values = self._values(at, env, origin, Lanes())
            single.store(slot, self.fold.combine(single.load(slot), values))

    def elements(self, at: ir.Value, env: Env, origin: ir.Value, mask: ir.Value | None) -> Parts:
        """The items' values for `count` elements from flattened position `at` on."""
        return self._values(at, env, origin, Lanes(self.count, self.inner, mask))

    def _values(self, at: ir.Value, env: Env, origin: ir.Value, lanes: Lanes) -> Parts:
        b = self.ctx.builder
        place = at if isinstance(origin, ir.Constant) else b.sub(at, origin, flags=("nsw",))
        emitter = ValueEmitter(self.ctx, b, {**env, self.inner.name: place}, lanes, {})
        return item_values(self.statement, emitter, at, along_over=True)


def item_values(statement: Reduce, emitter: ValueEmitter, at: ir.Value, along_over: bool) -> Parts:
    """The components of every item; positions count flattened elements from `at`."""
    parts: Parts = []
    for item in statement.items:
        parts.append(emitter.full(item.value))
        if item.kind in ("argmax", "argmin"):
            position = emitter.spread(at)
            count = emitter.lanes.count
            if along_over and count > 1:
                steps = ir.Constant(ir.VectorType(I64, count), list(range(count)))
                position = emitter.builder.add(position, steps)
            parts.append(position)
    return parts


def unflatten(ctx: KernelContext, statement: Reduce, env: Env, row: ir.Value) -> Env:
    """The outer over axes from the flattened number of their point."""
    outer = statement.over[:-1]
    index = IndexEmitter(ctx, ctx.builder, env)
    places = {}
    for axis in reversed(outer[1:]):
        extent = index.emit(axis.extent)
        places[axis.name] = index.op("umod", row, extent)
        row = index.op("ufloordiv", row, extent)
    return {**env, **places, outer[0].name: row}


def over_axes_at(
    ctx: KernelContext, statement: Reduce, env: Env, at: ir.Value
) -> dict[str, ir.Value]:
    """All over axes at the flattened element `at`."""
    inner = statement.over[-1]
    if len(statement.over) == 1:
        return {inner.name: at}
    index = IndexEmitter(ctx, ctx.builder, env)
    extent = index.emit(inner.extent)
    outer = unflatten(ctx, statement, env, index.op("ufloordiv", at, extent))
    places = {axis.name: outer[axis.name] for axis in statement.over[:-1]}
    return {**places, inner.name: index.op("umod", at, extent)}


def _narrow(b: ir.IRBuilder, value: ir.Value, kind: ir.IntType) -> ir.Value:
    return value if kind.width == 64 else b.trunc(value, kind)
