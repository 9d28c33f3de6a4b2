"""Typical values of symbolic sizes, for decisions that never change bits."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.ir.node import Node
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate


class Hints:
    """`Hints({"s0": 8})(expr)` is the number an expression had when the program was first seen."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)

    def __call__(self, value: int | Expr) -> int:
        return value if isinstance(value, int) else evaluate(value, self.values)

    def numel(self, node: Node) -> int:
        total = 1
        for size in node.shape:
            total *= self(size)
        return total
