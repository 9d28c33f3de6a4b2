"""Conditions that are known: the guards of record bodies over numbers that were written there.

before   select(and(ge(8, 0), lt(8, 32)), shr(x, 8), 0)        after   shr(x, 8)

For people who read the text; compilers would find the same.
"""

from __future__ import annotations

import operator

from rushlight.base.dtypes import bool_
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

_COMPARES = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def folded(node: E) -> E:
    """The node, or what it is known to be. Arguments are folded already."""
    args = node.args
    if node.op == "select" and args[0].op == "const":
        return args[1] if args[0].meta[0] else args[2]
    if node.op in _COMPARES and args[0].op == args[1].op == "const":
        return s.const(_COMPARES[node.op](args[0].meta[0], args[1].meta[0]), bool_)
    if node.op in ("and", "or") and node.dtype is bool_:
        for one, other in (args, args[::-1]):
            if one.op == "const":
                is_neutral = one.meta[0] == (node.op == "and")
                return other if is_neutral else one
    return node
