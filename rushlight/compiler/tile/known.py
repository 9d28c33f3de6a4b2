"""Whole numbers that are known when code is made are numbers in the code.

before   shr(x, select(lt(cast(#4, uint8), 8), cast(#4, uint8), 7))       after   shr(x, 4)

In: an expression whose indices were replaced by numbers. Out: the same value in fewer operations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}


def with_known(e: E) -> E:
    """The expression with comparisons, conversions and choices between known numbers made."""
    done: dict[E, E] = {}
    for node in s.topological([e]):
        args = tuple(done[a] for a in node.args)
        known = _known(node, args)
        if known is None:
            known = node if args == node.args else s.make(node.op, args, node.dtype, node.meta)
        done[node] = known
    return done[e]


def _known(node: E, args: tuple[E, ...]) -> E | None:
    if node.op == "index":
        return s.const(node.meta, node.dtype) if isinstance(node.meta, int) else None
    if node.op == "select" and args[0].op == "const":
        return args[1] if args[0].meta[0] else args[2]
    if not args or not all(a.op == "const" and not a.dtype.is_floating_point for a in args):
        return None
    numbers = [a.meta[0] for a in args]
    if node.op in _COMPARISONS:
        return s.const(_COMPARISONS[node.op](*numbers), bool_)
    if node.op == "and" and node.dtype is bool_:
        return s.const(numbers[0] and numbers[1], bool_)
    if node.op == "cast" and not node.dtype.is_floating_point:
        return s.const(np.array(numbers[0]).astype(node.dtype.np).item(), node.dtype)
    return None
