"""The import statements of a file, with absolute names, and whether they stand in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from source import PACKAGE, Source


@dataclass(frozen=True)
class Import:
    """One imported module of an import statement, with an absolute name."""

    line: int
    module: str
    in_function: bool


@cache
def imports_of(source: Source) -> list[Import]:
    return list(_below(source, source.tree, False))


def _below(source: Source, node: ast.AST, in_function: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(child.lineno, alias.name, in_function) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from _from_import(source, child, in_function)
        inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if node is source.tree and getattr(child, "name", "") == "__getattr__":
            inner = False
        yield from _below(source, child, in_function or inner)


def _from_import(source: Source, node: ast.ImportFrom, in_function: bool) -> Iterator[Import]:
    """`from a import b` may name the module a.b or a name in a; a.b serves both."""
    base = node.module or ""
    if node.level:
        folder = [PACKAGE, *source.parts[:-1]]
        start = folder[: len(folder) - (node.level - 1)]
        base = ".".join([*start, *([node.module] if node.module else [])])
    for alias in node.names:
        name = f"{base}.{alias.name}" if base else alias.name
        yield Import(node.lineno, name, in_function)


def parts_of(module: str) -> tuple[str, ...] | None:
    """The path below the package of one of its modules; None for a module of others."""
    head, *rest = module.split(".")
    return tuple(rest) if head == PACKAGE else None
