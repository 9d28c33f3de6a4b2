"""What an op's rules said of a call, kept by what they see of it: a repeated call runs no rule.

In: the positional arguments of `OpDef.node`. Out: its node, or None where such a call is new. Rules
see shapes, dtypes, attributes and which operands are number leaves; never a value. Always true: the
node is the one that binding and the rules would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.ir.arguments import Param, value_dtype
from rushlight.ir.node import Meta, Node, const_node, node_of, scalar_node, with_dtype

MOST_KNOWN = 1024
NUMBER_LEAVES = frozenset(("const", "scalar"))
ATTR, OPERAND, VALUE = range(3)


class NodeCache:
    """Of one op. Calls that give lists of operands are not kept."""

    __slots__ = ("ways", "known")

    def __init__(self, params: Sequence[Param]) -> None:
        kinds = {"tensor": OPERAND, "value": VALUE}
        self.ways = tuple([kinds.get(param.kind, ATTR) for param in params])
        # Key -> (meta, for each source: (argument, dtype to which a number is converted)).
        self.known: dict[tuple, tuple[Meta, tuple[tuple[int, DType | None], ...]]] = {}
        if any(param.variadic for param in params):
            self.ways = ()

    def find(self, args: tuple) -> Node | None:
        """The node of a call like one that was kept."""
        if len(args) > len(self.ways):
            return None
        try:
            found = self.known.get(_key(self.ways, args))
        except TypeError:  # an unhashable attribute
            return None
        if found is None:
            return None
        meta, sources = found
        src = []
        for position, dtype in sources:
            arg = args[position]
            if dtype is not None:
                if arg.__class__ is Node:
                    arg = with_dtype(arg, dtype)
                elif self.ways[position] == VALUE:
                    arg = scalar_node(arg, dtype)
                else:
                    arg = const_node(arg, dtype)
            src.append(arg)
        return node_of(meta, tuple(src))

    def keep(self, args: tuple, src: Sequence[Node], meta: Meta) -> None:
        """Note what became of a call."""
        places = [i for i in range(len(args)) if self.ways[i : i + 1] == (OPERAND,)]
        places = [i for i in places if args[i] is not None]
        places += [i for i in range(len(args)) if self.ways[i : i + 1] == (VALUE,)]
        if len(places) != len(src):
            return
        sources = []
        for i, node in zip(places, src, strict=True):
            arg = args[i]
            if arg is node and node.leaf not in NUMBER_LEAVES:
                sources.append((i, None))
            elif node.leaf not in NUMBER_LEAVES or not _is_number(arg):
                return
            elif self.ways[i] == VALUE and arg.__class__ is not Node:
                sources.append((i, value_dtype(arg)))
            else:
                sources.append((i, node.dtype))
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        try:
            self.known[_key(self.ways, args)] = meta, tuple(sources)
        except TypeError:
            pass


def _key(ways: tuple[int, ...], args: tuple) -> tuple:
    key: list[Any] = []
    for way, arg in zip(ways, args, strict=False):
        if arg.__class__ is Node:
            # A number may be converted, another operand is not.
            number = arg.leaf in NUMBER_LEAVES
            key.append((arg.leaf, arg.dtype) if number else (arg.shape, arg.dtype, arg.pairs))
        elif way == ATTR:
            key.append(arg if arg.__class__ is tuple else (arg.__class__, arg))
        else:
            key.append(arg.__class__)
    return tuple(key)


def _is_number(arg: Any) -> bool:
    if arg.__class__ is Node:
        return arg.leaf in NUMBER_LEAVES
    return isinstance(arg, bool | int | float | complex)
