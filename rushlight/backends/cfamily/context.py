"""What all lowerings share: the machine, fresh names, arrays, and how work is spread over threads.

In: a tile program's grid. Out: pieces of thread programs. `Machine` is all that a lowering knows of
a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.fold import folded
from rushlight.base.dtypes import DType, int32, int64
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.coords import unravel
from rushlight.compiler.tile.ir import Axis, Local, Store
from rushlight.compiler.tile.rewrite import map_index, rewrite_expr
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_math import ceildiv, minimum, product
from rushlight.ir.symint_walk import variables

Index = int | Expr
Place = tuple[c.Array, Index]  # an array, and where the group's own part of it begins
UNLIMITED = 1 << 31  # groups of a launch: more than anybody has


class Refused(Exception):
    """The lowering cannot express something; the message is the reason."""


@dataclass(frozen=True)
class Machine:
    """threads  most threads of a group; 1: a group is one thread, and inner loops are its work
    shared_bytes  for the arrays of a group (of one thread: its stack)
    slots  groups that are alive at once, when each needs scratch of its own
    subgroup  neighbouring threads that exchange values without memory; 1: none
    most_groups  of one launch
    matrices  the side of matrices that a subgroup multiplies at once; 1: it has no units for it
    progress  groups that have begun go on while others wait for them
    index  the dtype of the lowering's own counters
    """

    threads: int
    shared_bytes: int
    slots: int
    subgroup: int = 1
    most_groups: int = UNLIMITED
    index: DType = int64
    progress: bool = False
    matrices: int = 1

    @staticmethod
    def of(caps: Caps) -> Machine:
        return Machine(
            caps.group_threads, caps.shared_bytes, caps.groups, caps.subgroup, caps.most_groups,
            int64 if caps.index_bytes == 8 else int32, caps.progress, caps.matrices,
        )  # fmt: skip


class Context:
    """Lowers one grid to one kernel (or several: the lowering makes a context for each)."""

    def __init__(self, machine: Machine, stem: str, threads: int) -> None:
        self.machine, self.stem, self.threads = machine, stem, threads
        self.arrays: list[c.Array] = []
        self.scratch: list[c.Array] = []
        self.tiles: dict[Local, Place] = {}
        self.instances: Index = 1
        self.uses_slots = False
        self._memo: dict[E, E] = {}
        self._count = 0

    # names --------------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """A name that no other of this kernel has."""
        self._count += 1
        return f"{stem.rstrip('_')}_{self._count}"

    def axis(self, stem: str, extent: Index) -> Axis:
        return Axis(self.fresh(stem), extent)

    # memory -------------------------------------------------------------------------------------

    def array(self, stem: str, dtype: DType, size: Index) -> Place:
        """Memory of the group."""
        bound = at_most(size)
        if isinstance(bound, int):
            used = sum(_bytes(a) for a in self.arrays if a.space == "shared")
            if used + bound * dtype.itemsize <= self.machine.shared_bytes:
                found = c.Array(self.fresh(stem), dtype, max(1, bound), "shared")
                self.arrays.append(found)
                return found, 0
        elif bound is None:
            raise Refused(f"a tile of {size!r} elements: no bound that is known before it runs")
        self.uses_slots = True
        found = c.Array(
            f"{self.stem}_{self.fresh(stem)}", dtype, bound * self.machine.slots, "scratch"
        )
        self.scratch.append(found)
        return found, c.GROUP * bound

    def private(self, stem: str, dtype: DType, size: int) -> c.Array:
        found = c.Array(self.fresh(stem), dtype, size, "private")
        self.arrays.append(found)
        return found

    def place(self, tile: Local) -> Place:
        """Where a tile of the program lies."""
        if tile not in self.tiles:
            self.tiles[tile] = self.array(f"{_word(tile.name)}_", tile.dtype, tile.size)
        return self.tiles[tile]

    def put(self, dest: object, at: Index, value: E, mask: E | None = None) -> c.Put:
        """A store of the program."""
        at = self.index(at)
        if isinstance(dest, Local):
            dest, base = self.place(dest)
            at = base + at
        mask = None if mask is None else self.expr(mask)
        return c.Put(dest, at, self.expr(value), mask)  # type: ignore[arg-type]

    def put_of(self, store: Store, acc: E) -> c.Put:
        """A store of an epilogue, where `acc` stands for the finished value."""
        mask = None if store.mask is None else self.expr(store.mask, acc)
        at = self.index(store.at)
        return c.Put(store.dest, at, self.expr(store.value, acc), mask)  # type: ignore[arg-type]

    # expressions --------------------------------------------------------------------------------

    def expr(self, e: E, *accs: E) -> E:
        """The expression over arrays in place of tiles, and over `accs` in place of its leaves."""
        if not accs:
            return rewrite_expr(e, self._placed, self._memo)
        return rewrite_expr(
            e, lambda node: accs[node.meta] if node.op == "acc" else self._placed(node)
        )

    def index(self, at: Index) -> Index:
        return map_index(at, self.expr)

    def _placed(self, node: E) -> E:
        if node.op not in ("load", "local") or not isinstance(node.meta[0], Local):
            return folded(node)
        array, base = self.place(node.meta[0])
        return s.make("load", node.args, node.dtype, (array, base + node.meta[1]))

    def whole(self, value: Index) -> E:
        """An index as a value of the lowering's own counters."""
        return s.cast(s.index(value), self.machine.index)

    def counter(self, name: str) -> E:
        """A variable of that dtype."""
        return s.param(name, self.machine.index)

    # threads ------------------------------------------------------------------------------------

    def spread(
        self, axes: Sequence[Axis], body: Callable[[], Sequence[c.Code]], independent: bool = True
    ) -> c.Block:
        """Every point of the axes once, each by some thread. Points must not need one another."""
        axes = tuple(axes)
        fixed = _depended_on(axes)
        if fixed:
            inner = self.spread(axes[fixed:], body, independent)
            return self.nest(axes[:fixed], lambda: inner, False)
        if self.threads == 1:
            return self.nest(axes, body, independent)
        total = product(axis.extent for axis in axes)
        if len(axes) == 1:
            return (c.For(axes[0].var, c.THREAD, total, self.threads, tuple(body())),)
        if not axes:
            only_first = s.eq(s.index(c.THREAD), s.index(0))
            return (c.If(only_first, tuple(body())),)
        flat = self.axis("i", total)
        binds = bound(axes, flat.var)
        return (c.For(flat.var, c.THREAD, total, self.threads, (*binds, *body())),)

    def nest(
        self, axes: Sequence[Axis], body: Callable[[], Sequence[c.Code]], independent: bool = False
    ) -> c.Block:
        """Loops of this thread over all points, in order."""
        real = [axis for axis in axes if axis.extent != 1] or list(axes[-1:])
        block: c.Block = (*(c.Bind(a.var, 0) for a in axes if a not in real), *body())
        for depth, axis in enumerate(reversed(real)):
            block = (c.For(axis.var, 0, axis.extent, 1, block, independent and depth == 0),)
        return block

    def barrier(self) -> c.Block:
        return () if self.threads == 1 else (c.Barrier(),)

    # kernels ------------------------------------------------------------------------------------

    def kernel(
        self,
        body: Sequence[c.Code],
        instances: Index,
        instance: Var,
        passes: c.Passes | None = None,
    ) -> c.Kernel:
        """A kernel whose groups are the instances. They loop over them where there may be more
        than the machine can launch, or than there is scratch for."""
        most = self.machine.slots if self.uses_slots else self.machine.most_groups
        known = at_most(instances)
        few = isinstance(known, int) and known <= most
        if not self.uses_slots and (few or most >= UNLIMITED):
            block, groups = (c.Bind(instance, c.GROUP), *body), instances
        else:
            loop = (*body, *self.barrier())
            groups = minimum(instances, most)
            block = (c.For(instance, c.GROUP, instances, most, loop),)
        return c.Kernel(self.stem, groups, self.threads, tuple(self.arrays), block, passes)

    def flat_kernel(
        self, total: Index, body: Callable[[Var], Sequence[c.Code]], passes: c.Passes | None = None
    ) -> c.Kernel:
        """A kernel of `total` items that do not need one another."""
        size = self.threads if self.threads > 1 else 1024
        instance = Var("instance_id", 0, None, "axis")
        item = Axis("item_id", total)
        here = Var("item_i", 0, size - 1, "axis")
        start = instance * size
        inside = (c.Bind(item.var, start + here), *body(item.var))
        first, step = (c.THREAD, self.threads) if self.threads > 1 else (0, 1)
        loop = c.For(here, first, minimum(size, total - start), step, inside)
        return self.kernel((loop,), ceildiv(total, size), instance, passes)


def put_at(place: Place, at: Index, value: E) -> c.Put:
    """A store to the group's own memory."""
    return c.Put(place[0], place[1] + at, value)


def get_at(place: Place, at: Index) -> E:
    """An element of it."""
    return s.load(place[0], place[1] + at)


def bound(axes: Sequence[Axis], flat: Index) -> tuple[c.Bind, ...]:
    """The axes' variables from a flat position."""
    at = unravel(flat, [axis.extent for axis in axes])
    return tuple(c.Bind(axis.var, value) for axis, value in zip(axes, at, strict=True))


def _depended_on(axes: Sequence[Axis]) -> int:
    """How many axes, from the first, are named by extents of others."""
    names = [axis.name for axis in axes]
    found = 0
    for axis in axes:
        for name in variables(axis.extent):
            if name in names:
                found = max(found, names.index(name) + 1)
    return found


def _bytes(array: c.Array) -> int:
    assert isinstance(array.size, int)
    return array.size * array.dtype.itemsize


def _word(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
