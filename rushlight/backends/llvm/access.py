"""Which axis to run the lanes along: how loads and stores of a statement step along each axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.casts import cast_bytes
from rushlight.backends.llvm.linear import split_by_lane
from rushlight.compiler.tile.ir import Axis
from rushlight.ir.scalar import E, children, topological
from rushlight.ir.symint import Expr, OpAtom
from rushlight.ir.symint_walk import variables

# Every second element, such as one part of complex numbers; every fourth, of four in one word.
PAIR, QUAD = 2, 4
OTHER = None  # a stride that is none of these, nor 0, nor 1
Index = int | Expr


@dataclass(frozen=True)
class Range:
    """start <= axis < stop."""

    axis: Axis
    start: Index
    stop: Index

    @property
    def extent(self) -> Index:
        return self.stop - self.start


def ranges_of(axes: Sequence[Axis]) -> list[Range]:
    return [Range(axis, 0, axis.extent) for axis in axes]


def free_names(roots: Sequence[E]) -> dict[E, frozenset[str]]:
    """The names of the variables below each expression."""
    names: dict[E, frozenset[str]] = {}
    for node in topological(tuple(roots)):
        own: set[str] = set()
        for at in node.meta if node.op == "check_index" else (_index_of(node),):
            own |= {v.name for v in variables(at).values() if v.kind != "value"}
        names[node] = frozenset(own).union(*(names[c] for c in children(node)))
    return names


def _index_of(node: E) -> Index:
    if node.op == "index":
        return node.meta
    return node.meta[1] if node.op in ("load", "local") else 0


def stride_along(
    at: Index, axis: str, names: dict[E, frozenset[str]], aligned: int = 0
) -> int | None:
    """0, 1, PAIR, QUAD or OTHER: how an element offset steps with the axis. aligned: the number of
    lanes, where vectors start at multiples of it."""
    if not isinstance(at, Expr):
        return 0
    lanes = aligned or PAIR  # two lanes tell a step as well as more do
    parts = split_by_lane(at, axis, lanes, aligned > 0, lambda atom: _depends(atom, axis, names))
    if parts.rest or parts.pattern or any(parts.stride[m] for m in parts.stride if m):
        return OTHER
    stride = parts.stride.get((), 0)
    return stride if stride in (0, 1, PAIR, QUAD) else OTHER


def step_along(at: Index, axis: str, names: dict[E, frozenset[str]]) -> int | None:
    """How far an element offset steps with the axis; None if that is no constant."""
    if not isinstance(at, Expr):
        return 0
    stride = 0
    for monomial, coef in at.terms:
        inside = [atom for atom in monomial if _depends(atom, axis, names)]
        if not inside:
            continue
        if len(monomial) > 1 or isinstance(inside[0], OpAtom) or inside[0].var.kind == "value":
            return None
        stride += coef
    return stride


def is_read(at: Index, axis: str, names: dict[E, frozenset[str]]) -> bool:
    """Does memory tell how an element offset goes along the axis (rows that indices pick)? Then it
    is known only of places that exist."""
    found = variables(at).values()
    return any(v.kind == "value" and _depends(v.atom, axis, names) for v in found)


def period_along(roots: Sequence[E], axis: str) -> int:
    """After how many steps along an axis the divisions by numbers in indices start again."""
    names = free_names(roots)
    return math.lcm(*(_period(_index_of(node), axis, names) for node in tuple(names)))


def _period(at: Index, axis: str, names: dict[E, frozenset[str]]) -> int:
    periods = [1]
    for atom in at.atoms() if isinstance(at, Expr) else ():
        if isinstance(atom, OpAtom) and isinstance(atom.b, int) and _depends(atom, axis, names):
            inner = _period(atom.a, axis, names)
            periods.append(inner if _repeats(atom.a) else inner * atom.b)
    return math.lcm(*periods)


def _repeats(at: Index) -> bool:
    """Is it a remainder, which starts again by itself?"""
    return isinstance(at, Expr) and all(atom.op == "mod" for atom in at.atoms())


def side_of_group(size: Index, base: Index, stride: Index) -> int | None:
    """The lanes are this one of each PAIR or QUAD, in memory that ends with a whole one."""
    if not isinstance(stride, int) or stride not in (PAIR, QUAD) or remainder(size, stride) != 0:
        return None
    return remainder(base, stride)


def remainder(number: int | Expr, by: int) -> int | None:
    """Of every value of an expression; None where they differ."""
    if isinstance(number, int):
        return number % by
    return None if any(coef % by for _, coef in number.terms) else number.const % by


def _depends(atom: object, axis: str, names: dict[E, frozenset[str]]) -> bool:
    if isinstance(atom, OpAtom):
        inner = {**variables(atom.a), **variables(atom.b)}
        return any(_depends(v.atom, axis, names) for v in inner.values())
    var = atom.var  # type: ignore[attr-defined]
    if var.kind == "value":
        return axis in _names_of(var.payload, names)
    return var.name == axis


def _names_of(payload: E, names: dict[E, frozenset[str]]) -> frozenset[str]:
    if payload not in names:
        names.update(free_names([payload]))
    return names[payload]


@dataclass(frozen=True)
class Accesses:
    """All element offsets that a statement reads (from `roots`) and writes."""

    roots: tuple[E, ...]
    names: dict[E, frozenset[str]]
    reads: tuple[Index, ...]
    writes: tuple[Index, ...]

    def lane_bytes(self, axis: str, target: Target) -> int:
        """The widest value that differs between lanes: it decides how many lanes there are."""
        widest = 1
        for node, names in self.names.items():
            if axis not in names:
                continue
            widest = max(widest, node.dtype.itemsize)
            if node.op in ("load", "local"):
                gathered = stride_along(node.meta[1], axis, self.names) is OTHER
                widest = max(widest, 8 if gathered else 1)
            if node.op == "cast":
                widest = max(widest, cast_bytes(node.args[0].dtype, node.dtype))
            if node.op == "fma" and not target.fma:
                widest = 8
        if any(stride_along(at, axis, self.names) is OTHER for at in self.writes):
            widest = 8
        return widest

    def cost(self) -> int:
        """About how many operations one point is."""
        return max(1, len(self.names))

    def score(self, axis: str) -> int:
        """How well vectors along `axis` suit the memory accesses; above 0: worth it."""
        worth = {0: 0, 1: 2, PAIR: 1, QUAD: 0, OTHER: -2}
        reads = sum(worth[stride_along(at, axis, self.names)] for at in self.reads)
        writes = sum(worth[stride_along(at, axis, self.names)] for at in self.writes)
        return reads + 2 * writes


def find_accesses(roots: Iterable[E | None], writes: Iterable[Index]) -> Accesses:
    kept = tuple(r for r in roots if r is not None)
    names = free_names(kept)
    reads = tuple(n.meta[1] for n in names if n.op in ("load", "local"))
    return Accesses(kept, names, reads, tuple(writes))


def choose_range(ranges: Sequence[Range], accesses: Accesses, target: Target) -> Range | None:
    """The range to run lanes along (the inner one of equals), or None for scalar code."""
    best, best_score = None, 0.0
    for candidate in ranges:
        name = candidate.axis.name
        if bounds_use(ranges, name):
            continue
        lanes = target.vector_bytes // accesses.lane_bytes(name, target)
        extent = candidate.axis.extent
        score = accesses.score(name) * (_share_used(extent, lanes) if lanes > 1 else 0.0)
        if score > 0 and score >= best_score:
            best, best_score = candidate, score
    return best


def bounds_use(ranges: Sequence[Range], name: str) -> bool:
    """Do the bounds of another range depend on this axis? Then it must stay outside of it."""
    others = (r for r in ranges if r.axis.name != name)
    return any(name in {**variables(r.start), **variables(r.stop)} for r in others)


def _share_used(extent: Index, lanes: int) -> float:
    if not isinstance(extent, int) or extent >= 4 * lanes:
        return 1.0
    if extent <= 1:
        return 0.0
    return extent / (-(-extent // lanes) * lanes)
