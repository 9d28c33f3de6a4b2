"""Choices of the compiler and their reasons, and whom they are told.

In: nothing. Out: `Decision` (what was chosen, why), `Choice` (a decision about a node or a kernel)
and `Trace`, the object that a compilation is given to tell what it does. Always true: a trace only
listens; what is compiled does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.ir.node import Node
from rushlight.ir.passes import Pass


@dataclass(frozen=True)
class Decision:
    """`choice` is "yes", "no" or the name of what was taken. A reason is a word with underscores
    and, after a colon, what was seen: "not_same_shape: [4, 8] in [32]"."""

    choice: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.choice}   {', '.join(self.reasons)}".rstrip()


@dataclass(frozen=True, eq=False)
class Choice:
    """topic "point": is `node` kept?  "fuse": does it join `group`?  "pick": how is `group` run?"""

    topic: str
    decision: Decision
    node: Node | None = None
    group: Any = None


class Trace:
    """Told about passes and choices while a graph is compiled. This one lets everything pass by."""

    def choose(self, choice: Choice) -> None:
        """A choice was made."""

    def rewrote(self, rule: str, where: str, before: Node, after: Node) -> None:
        """A graph pass replaced a node: the rule's name, the file:line that defines it."""

    def before(self, state: Any) -> None:
        """A compilation starts (see compiler/compilation.py for `state`)."""

    def after(self, step: Pass, number: int, before: Any, state: Any) -> None:
        """Pass `number` (from 1) has run: the state before and after it."""


SILENT = Trace()


def defined_at(rule: Any) -> str:
    """file:line of a rule's function."""
    code = getattr(rule, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
