"""Which ints of a structure are constants and which are variables of its program.

In: the ints with which a structure was seen (rows) and which positions are offsets. Out: a
`Template`, which says for further ints whether the program fits them, and with which values.

A size that was in every sample the product of two variables, or a multiple of one, is no variable
but that product: reshape([B, T, C] -> [B*T, C]) then keeps its meaning, and what is computed before
and after it shares kernels as it does with constants. Where that was a coincidence, the first ints
that break it give one more sample, and so a template without it.

>>> t = make_template(np.array([[2, 8, 16], [3, 8, 24]]), frozenset())
>>> t.names, t.match(np.array([5, 8, 40])), t.match(np.array([5, 8, 41]))
(('s0',), array([5]), None)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rushlight.ir.symint import Expr, Var

# Products are looked for among the first variables only; a graph has few of them.
MAX_FACTORS = 12

Column = tuple[int, ...]


@dataclass(eq=False)
class Template:
    """Which ints of a recording are constants and which are variables.

    fixed     (positions, values) that must match
    variable  (positions, variable number) that must agree with the variable's first position
    first     first position of each variable
    product   (positions, rows of factor, variable, variable) that must be that product; the number
              after the last variable stands for 1
    """

    fixed_at: np.ndarray
    fixed: np.ndarray
    variable_at: np.ndarray
    variable: np.ndarray
    first: np.ndarray
    product_at: np.ndarray
    product: np.ndarray
    names: tuple[str, ...]

    def match(self, ints: np.ndarray) -> np.ndarray | None:
        """Values of the variables, or None when the recording does not fit."""
        if not np.array_equal(ints[self.fixed_at], self.fixed):
            return None
        values = ints[self.first]
        if not np.array_equal(ints[self.variable_at], values[self.variable]):
            return None
        if len(self.product_at):
            factor, a, b = self.product.T
            and_one = np.append(values, 1)
            if not np.array_equal(ints[self.product_at], factor * and_one[a] * and_one[b]):
                return None
        return values

    def sizes(self, ints: Sequence[int]) -> list[int | Expr]:
        """The ints with variables, and products of them, in place of what varies."""
        variables: list[int | Expr] = [
            Var(name, 0, None, "offset") if name[0] == "o" else Var(name, 2, None, "size")
            for name in self.names
        ]
        found: list[int | Expr] = list(ints)
        for position, number in zip(self.variable_at, self.variable, strict=True):
            found[position] = variables[number]
        variables.append(1)
        for position, (factor, a, b) in zip(self.product_at, self.product.tolist(), strict=True):
            found[position] = variables[a] * factor * variables[b]
        return found


def make_template(samples: np.ndarray, offsets: frozenset[int]) -> Template:
    """samples: [seen, positions]. Columns that vary become variables, offsets apart from sizes.

    Equal columns share a variable: `x[i:j] += y` reads and writes at one offset, and in place.
    """
    varies = (samples != samples[0]).any(axis=0)
    places: dict[tuple[str, Column], list[int]] = {}
    for position in np.flatnonzero(varies).tolist():
        kind = "o" if position in offsets else "s"
        places.setdefault((kind, tuple(samples[:, position].tolist())), []).append(position)
    products = _products([column for kind, column in places if kind == "s"])
    variables = [key for key in places if key[0] == "o" or key[1] not in products]
    number = {column: n for n, (kind, column) in enumerate(variables) if kind == "s"}
    number[()] = len(variables)
    product_at, product = [], []
    for column, (factor, a, b) in products.items():
        here = places["s", column]
        product_at += here
        product += [(factor, number[a], number[b])] * len(here)
    fixed = np.flatnonzero(~varies)
    counts = [(position, n) for n, key in enumerate(variables) for position in places[key]]
    return Template(
        fixed,
        samples[0][fixed],
        np.array([position for position, _ in counts], np.int64),
        np.array([n for _, n in counts], np.int64),
        np.array([places[key][0] for key in variables], np.int64),
        np.array(product_at, np.int64),
        np.array(product, np.int64).reshape(-1, 3),
        tuple(f"{kind}{n}" for n, (kind, _) in enumerate(variables)),
    )


def _products(columns: list[Column]) -> dict[Column, tuple[int, Column, Column]]:
    """Column -> (factor, column, column or ()) for each that is such a product of variables."""
    found: dict[Column, tuple[int, Column, Column]] = {}
    factors: list[Column] = []
    for column in sorted(columns):  # a product is larger than its factors
        product = _find_product(column, factors)
        if product is not None:
            found[column] = product
        elif len(factors) < MAX_FACTORS:
            factors.append(column)
    return found


def _find_product(column: Column, factors: list[Column]) -> tuple[int, Column, Column] | None:
    for i, a in enumerate(factors):
        quotient = _divide(column, a)
        if quotient is None:
            continue
        if len(set(quotient)) == 1:
            return quotient[0], a, ()
        for b in factors[i:]:
            rest = _divide(quotient, b)
            if rest is not None and len(set(rest)) == 1:
                return rest[0], a, b
    return None


def _divide(column: Column, by: Column) -> Column | None:
    if any(n % d for n, d in zip(column, by, strict=True)):
        return None
    return tuple(n // d for n, d in zip(column, by, strict=True))
