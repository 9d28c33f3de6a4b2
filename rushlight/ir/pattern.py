"""Patterns over graphs, and rules: data that says "where this stands, put that".

    x, y = Any("x"), Any("y")
    Rule("exp_of_log", Op("exp", Op("log", x)), lambda x: x)
    Rule("add_zero", Op("add", x, Const(0), commutes=True), lambda x: x)

A pattern matches a node and binds names to nodes; a name that occurs twice must be one node.
This module names no op: rules do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any as Anything

from rushlight.ir.node import Node

Bindings = dict[str, Node]


class Pattern:
    """Subclasses give every way in which a node matches, given what is bound already."""

    def matches(self, node: Node, bound: Bindings) -> Iterator[Bindings]:
        raise TypeError(f"{type(self).__name__} is no pattern")

    def find(self, node: Node) -> Bindings | None:
        """The first match."""
        return next(self.matches(node, {}), None)

    @property
    def root_ops(self) -> tuple[str, ...] | None:
        """Names of ops the root may have; None: anything."""
        return None


def _bind(bound: Bindings, name: str, node: Node) -> Bindings | None:
    if not name:
        return bound
    if name in bound:
        return bound if bound[name] is node else None
    return {**bound, name: node}


@dataclass(frozen=True)
class Any(Pattern):
    """Any node (that `when` likes), bound to `name`."""

    name: str = ""
    when: Callable[[Node], bool] | None = None

    def matches(self, node: Node, bound: Bindings) -> Iterator[Bindings]:
        if self.when is None or self.when(node):
            found = _bind(bound, self.name, node)
            if found is not None:
                yield found


@dataclass(frozen=True)
class Const(Pattern):
    """A const leaf, with this value if one is given (0 matches 0, 0.0 and -0.0: guard the sign
    with `when` on the rule where it matters)."""

    value: Anything = None
    name: str = ""

    def matches(self, node: Node, bound: Bindings) -> Iterator[Bindings]:
        if node.leaf == "const" and (self.value is None or node.attrs[0] == self.value):
            found = _bind(bound, self.name, node)
            if found is not None:
                yield found


@dataclass(frozen=True, init=False)
class Op(Pattern):
    """A node of one of these ops (names joined by |), its sources matched by `sources`.

    sources   one pattern per source, or none at all: sources are not looked at
    attrs     attribute name -> wanted value, or a predicate on the value
    commutes  the sources may come in any order
    """

    ops: tuple[str, ...]
    sources: tuple[Pattern, ...]
    name: str
    attrs: Mapping[str, Anything]
    commutes: bool

    def __init__(
        self,
        ops: str,
        *sources: Pattern,
        name: str = "",
        attrs: Mapping[str, Anything] | None = None,
        commutes: bool = False,
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "ops", tuple(ops.split("|")))
        set_field(self, "sources", sources)
        set_field(self, "name", name)
        set_field(self, "attrs", dict(attrs or {}))
        set_field(self, "commutes", commutes)

    @property
    def root_ops(self) -> tuple[str, ...]:
        return self.ops

    def matches(self, node: Node, bound: Bindings) -> Iterator[Bindings]:
        if node.op is None or node.op.name not in self.ops or not self._attrs_fit(node):
            return
        found = _bind(bound, self.name, node)
        if found is None:
            return
        if not self.sources:
            yield found
        elif len(self.sources) == len(node.src):
            orders = permutations(node.src) if self.commutes else (node.src,)
            for order in orders:
                yield from _match_all(self.sources, order, found)

    def _attrs_fit(self, node: Node) -> bool:
        for name, wanted in self.attrs.items():
            value = node.attr(name)
            if not (wanted(value) if callable(wanted) else value == wanted):
                return False
        return True


def _match_all(
    patterns: tuple[Pattern, ...], nodes: tuple[Node, ...], bound: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in patterns[0].matches(nodes[0], bound):
        yield from _match_all(patterns[1:], nodes[1:], found)


def _definition_site() -> str:
    """file:line of the code that declares the rule (outside of this module and of dataclass)."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, "<string>"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass(frozen=True, eq=False)
class Rule:
    """Where `pattern` matches and `when(**bindings)` holds, `replace(**bindings)` takes its place.

    replace gives a Node of the same shape and dtype, or None (no change after all). Both functions
    get the bound names as keyword arguments. `defined_at` is where the rule is written.
    """

    name: str
    pattern: Pattern
    replace: Callable[..., Node | None]
    when: Callable[..., bool] | None = None
    defined_at: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.defined_at:
            object.__setattr__(self, "defined_at", _definition_site())

    def apply(self, node: Node) -> Node | None:
        """The replacement of a node, or None."""
        for bound in self.pattern.matches(node, {}):
            if self.when is None or self.when(**bound):
                result = self.replace(**bound)
                if result is not None and result is not node:
                    return result
        return None
