"""Products whose operand slides, with fewer multiplications (Winograd's minimal filtering, exactly
derived from Toom and Cook's evaluation at points).

    y[s] = sum over d < taps of w[d] * x[d + s],   s = 0 .. outputs - 1

takes outputs + taps - 1 multiplications instead of outputs * taps:

    y = Y * ((W * w) . (X * x))

with small matrices of fixed numbers W (points x taps), X (points x points), Y (outputs x points).
In: the two counts. Out: the matrices, as fractions. All numbers of X are integers and those of Y
powers of two: nothing is rounded there but sums. The points 0, 1, -1, 1/2, -2 and infinity were
measured: 0, 1, -1, 2, -2 lose a third of a digit more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm

# Steps of k after which a sum is added to those before and begins again (a fixed order of sums):
# short chains make up for what the points lose.
CHUNK = 32
POINTS = tuple(map(Fraction, (0, 1, -1))) + (Fraction(1, 2), Fraction(-2))
Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class Transforms:
    """w: points x taps, x: points x points, y: outputs x points."""

    w: Matrix
    x: Matrix
    y: Matrix


@cache
def transforms(outputs: int, taps: int) -> Transforms:
    """The matrices of a product of `taps` taps that gives `outputs` outputs."""
    points = POINTS[: outputs + taps - 2]
    size = len(points) + 1
    if size != outputs + taps - 1:
        raise ValueError(f"transforms: outputs + taps is {outputs + taps}, at most 7 are allowed")
    inverse = _inverse(_powers(points, size))
    x = [[inverse[j][i] for j in range(size)] for i in range(size)]
    w = [list(row) for row in _powers(points, taps)]
    for i, row in enumerate(x):
        scale = Fraction(lcm(*(v.denominator for v in row)))
        while all((v * scale / 2).denominator == 1 for v in row):
            scale /= 2
        x[i], w[i] = [v * scale for v in row], [v / scale for v in w[i]]
    y = zip(*_powers(points, outputs), strict=True)
    return Transforms(_fixed(w), _fixed(x), _fixed(y))


def _powers(points: tuple[Fraction, ...], count: int) -> list[list[Fraction]]:
    """Row by row 1, p, p * p, ...; the last row is the point at infinity."""
    rows = [[p**i for i in range(count)] for p in points]
    return [*rows, [Fraction(int(i == count - 1)) for i in range(count)]]


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(i for i in range(column, size) if rows[i][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [v / rows[column][column] for v in rows[column]]
        for i in range(size):
            if i != column:
                factor = rows[i][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[column], strict=True)]
    return [row[size:] for row in rows]


def _fixed(rows: object) -> Matrix:
    return tuple(tuple(row) for row in rows)  # type: ignore[attr-defined]
