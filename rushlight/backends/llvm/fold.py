"""The canonical order of sums in LLVM: 32 partials, a tree over halves, a tree over chunks.

A *state* is the list of components of all items of a Reduce (see monoid.py), as SSA values.
`States` keeps arrays of states on the stack; bools lie there as bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from rushlight.backends.llvm.context import I1, I8, I32, I64, KernelContext, i64
from rushlight.backends.llvm.monoid import Monoid, Parts, reduce_monoid
from rushlight.backends.llvm.ops import constant, intrinsic, with_lanes
from rushlight.compiler.tile.ir import CHUNK, PARTIALS, Reduce

# Chunks of 4096 elements: 52 levels of the tree hold 2**64 elements; `tree` order needs them all.
LEVELS = 64
# A reduction over panels keeps fewer: 2**40 chunks are more than any memory.
PANEL_LEVELS = 40


class Fold:
    """How the states of one Reduce are made and combined."""

    def __init__(self, ctx: KernelContext, statement: Reduce) -> None:
        self.ctx = ctx
        self.monoids: list[Monoid] = [
            reduce_monoid(item.kind, item.value.dtype) for item in statement.items
        ]
        self.lane_types = [kind for m in self.monoids for kind, _ in m.identity]

    @property
    def size(self) -> int:
        return len(self.lane_types)

    def types(self, count: int) -> list[ir.Type]:
        return [ir.VectorType(t, count) if count > 1 else t for t in self.lane_types]

    def identity(self, count: int) -> Parts:
        values = [value for m in self.monoids for _, value in m.identity]
        return [constant(t, v) for t, v in zip(self.types(count), values, strict=True)]

    def combine(self, x: Parts, y: Parts) -> Parts:
        """x and y joined, x first."""
        joined: Parts = []
        for monoid in self.monoids:
            at, size = len(joined), len(monoid.identity)
            joined += monoid.combine(self.ctx.builder, x[at : at + size], y[at : at + size])
        return joined

    def select(self, mask: ir.Value, x: Parts, y: Parts) -> Parts:
        b = self.ctx.builder
        return [b.select(mask, one, other) for one, other in zip(x, y, strict=True)]

    def results(self, state: Parts) -> Parts:
        """What each item stores: the value, or the position for argmax and argmin."""
        found: Parts = []
        at = 0
        for monoid in self.monoids:
            at += len(monoid.identity)
            found.append(state[at - 1])
        return found


class States:
    """`slots` states of `count` lanes each, in stack memory."""

    def __init__(self, fold: Fold, count: int, slots: int) -> None:
        self.fold, self.count = fold, count
        self.ctx = fold.ctx
        self.kinds = [with_lanes(_in_memory(t), t) for t in fold.types(count)]
        elements = [getattr(k, "element", k) for k in self.kinds]
        self.bases = [self.ctx.stack_array(k, slots * count) for k in elements]
        self.aligns = [
            max(1, k.width // 8 if isinstance(k, ir.IntType) else _float_bytes(k)) for k in elements
        ]

    def load(self, slot: ir.Value) -> Parts:
        b = self.ctx.builder
        loaded = [
            b.load(self._place(n, slot), typ=kind, align=self.aligns[n])
            for n, kind in enumerate(self.kinds)
        ]
        return [
            b.icmp_unsigned("!=", v, constant(v.type, 0)) if is_bool(t) else v
            for v, t in zip(loaded, self.fold.types(self.count), strict=True)
        ]

    def store(self, slot: ir.Value, state: Parts) -> None:
        b = self.ctx.builder
        for n, value in enumerate(state):
            stored = b.zext(value, self.kinds[n]) if is_bool(value.type) else value
            b.store(stored, self._place(n, slot), align=self.aligns[n])

    def as_lanes(self, count: int) -> States:
        """The same memory read as states of `count` lanes (slots are counted in these)."""
        if count == self.count:
            return self
        view = object.__new__(States)
        view.fold, view.count, view.ctx = self.fold, count, self.ctx
        view.kinds = [with_lanes(_in_memory(t), t) for t in self.fold.types(count)]
        view.bases, view.aligns = self.bases, self.aligns
        return view

    def load_at(self, element: ir.Value, count: int) -> Parts:
        """`count` lanes from an element on."""
        return self._shifted(element).as_lanes(count).load(i64(0))

    def store_at(self, element: ir.Value, state: Parts) -> None:
        count = getattr(state[0].type, "count", 1)
        self._shifted(element).as_lanes(count).store(i64(0), state)

    def _shifted(self, element: ir.Value) -> States:
        view = object.__new__(States)
        view.__dict__ |= self.__dict__
        b = self.ctx.builder
        kinds = [getattr(k, "element", k) for k in self.kinds]
        view.bases = [
            b.gep(base, [element], source_etype=kind)
            for base, kind in zip(self.bases, kinds, strict=True)
        ]
        return view

    def _place(self, component: int, slot: ir.Value) -> ir.Value:
        kind = self.kinds[component]
        return self.ctx.builder.gep(self.bases[component], [slot], source_etype=kind)


def is_bool(kind: ir.Type) -> bool:
    return getattr(kind, "element", kind) == I1


def _in_memory(kind: ir.Type) -> ir.Type:
    element = getattr(kind, "element", kind)
    return I8 if element == I1 else element


def _float_bytes(kind: ir.Type) -> int:
    return 8 if isinstance(kind, ir.DoubleType) else 4


def tree_in_memory(partials: States, slot_of: Callable[[int], ir.Value]) -> Parts:
    """Join 32 partials over halves: p[i] + p[i+16], then +8, +4, +2, +1 (depth first: few live)."""

    def join(first: int, stride: int) -> Parts:
        if stride == PARTIALS:
            return partials.load(slot_of(first))
        low = join(first, 2 * stride)
        return partials.fold.combine(low, join(first + stride, 2 * stride))

    return join(0, 1)


def tree_in_registers(fold: Fold, parts: list[Parts], count: int) -> Parts:
    """The same tree for partials that lie in the lanes of `parts` (32 / count registers)."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [fold.combine(parts[n], parts[n + half]) for n in range(half)]
    (state,) = parts
    while count > 1:
        count //= 2
        low, high = (_half(fold.ctx.builder, state, count, n * count) for n in range(2))
        state = fold.combine(low, high)
    return state


def _half(b: ir.IRBuilder, state: Parts, count: int, first: int) -> Parts:
    if count == 1:
        return [b.extract_element(v, ir.Constant(I32, first)) for v in state]
    lanes = ir.Constant(ir.VectorType(I32, count), list(range(first, first + count)))
    return [b.shuffle_vector(v, ir.Constant(v.type, ir.Undefined), lanes) for v in state]


class ChunkTree:
    """Chunk results by a tree over neighbours, like a binary counter: equal levels are joined as
    soon as they are there; at the end what is left is joined from the newest to the oldest."""

    def __init__(self, fold: Fold, counts: list[int], width: int = 1) -> None:
        """`width` independent trees; push and finish get the number of the tree."""
        self.fold, self.ctx, self.width = fold, fold.ctx, width
        levels = LEVELS if width == 1 else PANEL_LEVELS
        self.levels = [States(fold, count, levels * width) for count in counts]

    def push(self, number: ir.Value, states: list[Parts], which: ir.Value | None = None) -> None:
        """Add the result of chunk `number` = 0, 1, 2, ..."""
        b = self.ctx.builder
        full = intrinsic(b, "llvm.cttz.i64", I64, [b.not_(number), ir.Constant(I1, 0)])
        carried = [v for state in states for v in state]
        with self.ctx.for_loop(b, i64(0), full, 1, carried) as loop:
            slot = self._slot(loop.index, which)
            joined = [
                self.fold.combine(level.load(slot), state)
                for level, state in zip(self.levels, self._split(loop.carried), strict=True)
            ]
            loop.set_next([v for state in joined for v in state])
        for level, state in zip(self.levels, self._split(loop.results), strict=True):
            level.store(self._slot(full, which), state)

    def finish(self, chunks: ir.Value, which: ir.Value | None = None) -> list[Parts]:
        """The result of `chunks` >= 1 pushed results."""
        b = self.ctx.builder
        lowest = intrinsic(b, "llvm.cttz.i64", I64, [chunks, ir.Constant(I1, 0)])
        zeros = intrinsic(b, "llvm.ctlz.i64", I64, [chunks, ir.Constant(I1, 0)])
        slot = self._slot(lowest, which)
        first = [v for level in self.levels for v in level.load(slot)]
        start = b.add(lowest, i64(1))
        with self.ctx.for_loop(b, start, b.sub(i64(64), zeros), 1, first) as loop:
            bit = b.and_(b.lshr(chunks, loop.index), i64(1))
            present = b.icmp_unsigned("==", bit, i64(1))
            slot = self._slot(loop.index, which)
            joined = []
            for level, state in zip(self.levels, self._split(loop.carried), strict=True):
                both = self.fold.combine(level.load(slot), state)
                joined += self.fold.select(present, both, state)
            loop.set_next(joined)
        return self._split(loop.results)

    def _slot(self, level: ir.Value, which: ir.Value | None) -> ir.Value:
        if which is None:
            return level
        b = self.ctx.builder
        return b.add(b.mul(level, i64(self.width)), which)

    def _split(self, values: list[ir.Value]) -> list[Parts]:
        size = self.fold.size
        return [values[n : n + size] for n in range(0, len(values), size)]


def over_chunks(
    ctx: KernelContext,
    fold: Fold,
    total: int | None,
    elements: ir.Value,
    counts: list[int],
    chunk: Callable[[ir.Value, ir.Value], list[Parts]],
) -> list[Parts]:
    """chunk(lo, hi) for each chunk of the elements, joined; `total` is their number if static."""
    if total is not None and total <= CHUNK:
        return chunk(i64(0), elements)
    b = ctx.builder
    tree = ChunkTree(fold, counts)
    some = b.select(b.icmp_signed(">", elements, i64(0)), elements, i64(1))
    chunks = b.udiv(b.add(some, i64(CHUNK - 1)), i64(CHUNK))
    with ctx.for_range(b, i64(0), chunks) as number:
        low = b.mul(number, i64(CHUNK), flags=("nsw",))
        end = b.add(low, i64(CHUNK), flags=("nsw",))
        high = b.select(b.icmp_signed("<", end, elements), end, elements)
        tree.push(number, chunk(low, high))
    return tree.finish(chunks)
