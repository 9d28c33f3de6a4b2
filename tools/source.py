"""A Python file as the checks of the tree see it, and what they find in it.

In: a path below the root of the tree. Out: its syntax tree, and findings as lines
FILE:LINE: message.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "rushlight"


@dataclass(frozen=True, order=True)
class Finding:
    """One violation."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Source:
    """One Python file, parsed once."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @cached_property
    def is_python(self) -> bool:
        try:
            return self.tree is not None
        except SyntaxError:
            return False

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The whole tree in a list: every rule walks it."""
        return list(ast.walk(self.tree))

    @cached_property
    def module(self) -> str:
        return self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The path below the package."""
        return tuple(self.name.removesuffix(".py").split("/")[1:])

    def finding(self, line: int, message: str) -> Finding:
        return Finding(self.name, line, message)
