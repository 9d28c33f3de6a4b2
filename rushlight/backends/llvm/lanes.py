"""One place that code is made for: a builder, an env, and lanes along an axis.

What is the same in all lanes stays a scalar and is splatted where a vector needs it. Invariant
parts move to the preheader of the loop where they become invariant (context.py); values are
numbered, so equal operations on equal values are emitted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from rushlight.backends.llvm.context import I64, Env, KernelContext
from rushlight.backends.llvm.ops import splat, vector_index_op, with_lanes
from rushlight.base.dtypes import DType
from rushlight.compiler.tile.ir import Axis

Cache = dict[Any, ir.Value]
Emit = Callable[[ir.IRBuilder], ir.Value]


@dataclass(frozen=True)
class Lanes:
    """`count` points at once: lane l is env[axis.name] + l. mask (<count x i1>): lanes that are
    there; masked lanes read and write nothing. What is the same in all lanes is
    read without asking the mask, so some lane must be there. aligned: the first lane's place is a
    multiple of count (see linear.py)."""

    count: int = 1
    axis: Axis | None = None
    mask: ir.Value | None = None
    aligned: bool = False


class LanesEmitter:
    """Emits operations on lanes at one place.

    cache: what is known in this block for this env and these lanes.
    """

    def __init__(
        self, ctx: KernelContext, builder: ir.IRBuilder, env: Env, lanes: Lanes, cache: Cache
    ) -> None:
        self.ctx, self.builder, self.env, self.lanes, self.cache = ctx, builder, env, lanes, cache

    def numbered(self, key: tuple, inputs: list[ir.Value], emit: Emit, floor: int = 0) -> ir.Value:
        """emit(builder) at the depth of `inputs` (not above `floor`), once per key."""
        depth = max([floor, *map(self.ctx.depth_of, inputs)])
        cache = self.ctx.cache_at(depth, self.cache)
        if key not in cache:
            cache[key] = emit(self.ctx.builder_at(depth, self.builder))
        return cache[key]

    def spread(self, value: ir.Value) -> ir.Value:
        """A scalar in all lanes."""
        count = self.lanes.count
        if count == 1 or isinstance(value.type, ir.VectorType):
            return value
        return self.numbered(("splat", count, value), [value], lambda b: splat(b, value, count))

    def vector_op(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        ones = f"splat (i64 {1 if name == 'mul' else 0})"
        if name in ("mul", "add") and isinstance(a, ir.FormattedConstant) and a.constant == ones:
            return b
        return self.numbered((name, a, b), [a, b], lambda at: vector_index_op(at, name, a, b))

    def as_i64(self, value: ir.Value, dtype: DType) -> ir.Value:
        if dtype.itemsize == 8:
            return value
        kind = with_lanes(I64, value.type)
        name = "sext" if dtype.kind == "int" else "zext"
        return self.numbered((name, value), [value], lambda b: getattr(b, name)(value, kind))
