"""Index arithmetic on coordinates: strides, linear offsets, reshape maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.ir.symint import Expr, Var, floordiv, mod


def axes_of(shape: Sequence[int | Expr]) -> tuple[Var | int, ...]:
    """A variable per axis; 0 along an axis of size 1, where there is one place only."""
    return tuple(0 if n == 1 else Var(f"d{i}", 0, n - 1, "axis") for i, n in enumerate(shape))


def broadcast_coords(shape: Sequence[int | Expr], at: Sequence[int | Expr]) -> tuple[Any, ...]:
    """Coordinates of a broadcast operand: aligned at the end, 0 where its size is 1."""
    skip = len(at) - len(shape)
    return tuple(0 if size == 1 else i for size, i in zip(shape, at[skip:], strict=True))


def strides_of(shape: Sequence[int | Expr]) -> tuple[int | Expr, ...]:
    """Row-major strides, in elements."""
    strides: list[int | Expr] = []
    step: int | Expr = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def linear(at: Sequence[int | Expr], strides: Sequence[int | Expr]) -> int | Expr:
    offset: int | Expr = 0
    for i, stride in zip(at, strides, strict=True):
        offset = offset + i * stride
    return offset


def unravel(offset: int | Expr, shape: Sequence[int | Expr]) -> tuple[int | Expr, ...]:
    """Coordinates of a linear offset (in range: the first dim needs no modulo)."""
    at: list[int | Expr] = []
    for position in range(len(shape) - 1, -1, -1):
        size = shape[position]
        if size in (0, 1):  # 0: there is no element, so any coordinate will do
            at.append(0)
        elif all(outer == 1 for outer in shape[:position]):
            at.append(offset)
            offset = 0
        else:
            at.append(mod(offset, size))
            offset = floordiv(offset, size)
    return tuple(reversed(at))


def reshape_coords(
    at: Sequence[int | Expr], shape: Sequence[int | Expr], to: Sequence[int | Expr]
) -> tuple[Any, ...]:
    """Where element `at` of `shape` lies in `to`. Dims that correspond keep their index.

    Works group by group: the shortest runs of dims with equal products map to each other, so that
    div and mod appear only where a reshape really splits or joins.
    """
    result: list[int | Expr] = []
    i = j = 0
    while i < len(shape) or j < len(to):
        i_end, j_end = _group(shape, i, to, j)
        left, right = shape[i:i_end], to[j:j_end]
        kept_left = [(a, n) for a, n in zip(at[i:i_end], left, strict=True) if n != 1]
        kept_right = [n for n in right if n != 1]
        if [n for _, n in kept_left] == kept_right:
            inner = iter(a for a, _ in kept_left)
            result.extend(0 if n == 1 else next(inner) for n in right)
        else:
            offset = linear(at[i:i_end], strides_of(left))
            result.extend(unravel(offset, right))
        i, j = i_end, j_end
    return tuple(result)


def _group(
    shape: Sequence[int | Expr], i: int, to: Sequence[int | Expr], j: int
) -> tuple[int, int]:
    """Ends of the shortest groups from i and j with equal products (the rest, if none)."""
    a: int | Expr = 1
    b: int | Expr = 1
    i_end, j_end = i, j
    while True:
        if i_end == len(shape) and j_end == len(to):
            return i_end, j_end
        if _take_left(a, b, i_end, len(shape), j_end, len(to)):
            a, i_end = a * shape[i_end], i_end + 1
        else:
            b, j_end = b * to[j_end], j_end + 1
        if a == b and (i_end > i or j_end > j):
            # Trailing unit dims belong to nobody: they are picked up by the next group.
            return i_end, j_end


def _take_left(
    a: int | Expr, b: int | Expr, i_end: int, i_len: int, j_end: int, j_len: int
) -> bool:
    if i_end == i_len or j_end == j_len:
        return j_end == j_len
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    degree_a = _degree(a)
    degree_b = _degree(b)
    return degree_a <= degree_b


def _degree(value: int | Expr) -> tuple[int, int]:
    if not isinstance(value, Expr):
        return (0, value)
    return max((len(monomial), coef) for monomial, coef in value.terms)
