"""How an index differs between lanes: the same, even steps, a fixed pattern, or unknown.

Lane l is at axis = start + l. Where start is a multiple of the lanes ("aligned"), divisions and
remainders of the axis by a multiple or a divisor of their number are known lane by lane:

    16 lanes   d // 64   the same in all lanes        d % 64   start % 64 + l
               d // 4    start // 4 + l // 4           d % 4    l % 4

So the rows of a small image, or every element twice, need no division in a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import llvmlite.ir as ir

from rushlight.ir.symint import Atom, Expr, OpAtom, VarAtom


class Linear(NamedTuple):
    """An index over the lanes: base + lane * stride + extra[lane]. repeat: 0, or extra[lane] is
    lane // repeat."""

    base: int | Expr
    stride: int | Expr
    extra: ir.Value | None
    repeat: int = 0


Terms = dict[tuple[Atom, ...], int]


@dataclass
class ByLane:
    """An index as base + lane * stride + pattern[lane] + rest, of (monomial -> coefficient) each.

    base is evaluated at the first lane. rest differs between lanes in a way that is not known.
    """

    base: Terms = field(default_factory=dict)
    stride: Terms = field(default_factory=dict)
    pattern: tuple[int, ...] = ()
    rest: Terms = field(default_factory=dict)


def split_by_lane(
    expr: Expr, axis: str, lanes: int, aligned: bool, varies: Callable[[Atom], bool]
) -> ByLane:
    """The parts of an index; `varies`: does an atom differ between lanes?"""
    parts, pattern = ByLane(), [0] * lanes
    for monomial, coef in expr.terms:
        places = [n for n, atom in enumerate(monomial) if varies(atom)]
        if not places:
            parts.base[monomial] = coef
            continue
        steps = steps_of(monomial[places[0]], axis, lanes, aligned) if len(places) == 1 else None
        others = monomial[: places[0]] + monomial[places[0] + 1 :]
        if steps is None or (others and not _is_even(steps)):
            parts.rest[monomial] = coef
            continue
        parts.base[monomial] = coef
        if _is_even(steps):
            parts.stride[others] = parts.stride.get(others, 0) + coef * steps[1]
        else:
            pattern = [total + coef * step for total, step in zip(pattern, steps, strict=True)]
    if _is_even(pattern):
        parts.stride[()] = parts.stride.get((), 0) + pattern[1]
    else:
        parts.pattern = tuple(pattern)
    return parts


def _is_even(steps: list[int] | range) -> bool:
    return all(step == n * steps[1] for n, step in enumerate(steps))


def repeat_of(pattern: tuple[int, ...]) -> int:
    """How often each number comes, where the pattern is 0 0 1 1 2 2 ...; else 0."""
    times = next((n for n, step in enumerate(pattern) if step), 0)
    even = times and all(step == n // times for n, step in enumerate(pattern))
    return times if even else 0


def steps_of(atom: Atom, axis: str, lanes: int, aligned: bool) -> list[int] | range | None:
    """How much more an atom is in each lane than in the first; None where that is not known."""
    if isinstance(atom, VarAtom):
        return range(lanes) if atom.name == axis else None
    if not (aligned and isinstance(atom, OpAtom) and isinstance(atom.b, int) and atom.b > 0):
        return None
    if atom.op not in ("mod", "floordiv") or not _starts_aligned(atom.a, axis, lanes):
        return None
    if atom.b % lanes == 0:
        return range(lanes) if atom.op == "mod" else [0] * lanes
    if lanes % atom.b:
        return None
    return [n % atom.b if atom.op == "mod" else n // atom.b for n in range(lanes)]


def _starts_aligned(expr: int | Expr, axis: str, lanes: int) -> bool:
    """Is it the axis, or a remainder of it that starts again at a multiple of `lanes`?"""
    if not isinstance(expr, Expr) or expr.const or len(expr.terms) != 1:
        return False
    (monomial, coef), *_ = expr.terms
    if coef != 1 or len(monomial) != 1:
        return False
    (atom,) = monomial
    if isinstance(atom, VarAtom):
        return atom.name == axis
    return (
        isinstance(atom, OpAtom)
        and atom.op == "mod"
        and isinstance(atom.b, int)
        and atom.b > 0
        and atom.b % lanes == 0
        and _starts_aligned(atom.a, axis, lanes)
    )
