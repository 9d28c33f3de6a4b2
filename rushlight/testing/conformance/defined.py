"""Where the interpreter and numpy mean the same by an operation: elsewhere bits are not compared.

In: a root of a case and how to read its leaves. Out: which of its elements count, or None: all.
Backends are compared with the interpreter everywhere, these places too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.base.dtypes import float64
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node

Read = Callable[[Node], np.ndarray]

# Larger angles have another remainder (compiler/lower/math/trig.py says which are right).
MOST_ANGLE = (2.0**50, 2.0**30)  # in float32, in float64
# fmod takes a quotient off in rounds, which reach so far (ops/binary.py).
MOST_QUOTIENT = (2.0**72, 2.0**106)


def counted(root: Node, read: Read) -> np.ndarray | None:
    rule = _RULES.get(root.name)
    found = None if rule is None else rule(root, interpret(root.src, read))
    return None if found is None else np.broadcast_to(found, root.shape)


def _cast(root: Node, sources: list[np.ndarray]) -> np.ndarray | None:
    """C leaves a float undefined that does not fit into whole numbers; here it is saturated."""
    goal, (x,) = root.dtype, sources
    if goal.kind not in ("int", "uint") or not root.src[0].dtype.is_floating_point:
        return None
    limits = np.iinfo(goal.np)
    whole = np.trunc(x.astype(np.float64))
    with np.errstate(invalid="ignore"):
        return (whole >= float(limits.min)) & (whole < 2.0 ** limits.max.bit_length())


def _quotient(root: Node, sources: list[np.ndarray]) -> np.ndarray | None:
    """By a whole 0, which PyTorch refuses where it computes on the CPU."""
    return None if root.dtype.is_floating_point else sources[1] != 0


def _angle(root: Node, sources: list[np.ndarray]) -> np.ndarray | None:
    limit = MOST_ANGLE[root.dtype is float64]
    with np.errstate(invalid="ignore"):
        return ~((np.abs(sources[0].astype(np.float64)) >= limit) & np.isfinite(sources[0]))


def _remainder(root: Node, sources: list[np.ndarray]) -> np.ndarray | None:
    if not root.dtype.is_floating_point:
        return None
    x, y = (array.astype(np.float64) for array in sources)
    with np.errstate(all="ignore"):
        return ~(
            (np.abs(x / y) >= MOST_QUOTIENT[root.dtype is float64]) & np.isfinite(x) & (y != 0)
        )


_RULES: dict[str, Callable[[Node, list[np.ndarray]], np.ndarray | None]] = {
    "cast": _cast, "floor_divide": _quotient, "fmod": _remainder,
    "sin": _angle, "cos": _angle, "tan": _angle,
}  # fmt: skip
