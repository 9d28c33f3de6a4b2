"""Arithmetic operators on Node, written with the records. Comparisons stay functions: `==` on
Nodes is identity, because graphs keep them in sets and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef
from rushlight.ops.late import late


def _both(record: OpDef) -> tuple[Callable, Callable]:
    def forward(self: Node, other: Any) -> Any:
        return record(self, other)

    def backward(self: Node, other: Any) -> Any:
        return record(other, self)

    return forward, backward


def install() -> None:
    """Give Node the operators + - * / ** @ and unary minus."""
    names = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow"}
    for operator, name in names.items():
        forward, backward = _both(getattr(late, name))
        setattr(Node, f"__{operator}__", forward)
        setattr(Node, f"__r{operator}__", backward)
    Node.__neg__ = lambda self: late.neg(self)  # type: ignore[attr-defined]
    Node.__matmul__ = lambda self, other: late.matmul(self, other)  # type: ignore[attr-defined]
