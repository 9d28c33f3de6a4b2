"""Check what a reader of rushlight/ trips over: long files, long functions, names nobody uses.

    python tools/style_check.py            # exit 1 and one line FILE:LINE: message per violation

The rules, each one function below:

* `file_length`      at most 400 lines; `LONG_FILES` names the exceptions, each with its reason
* `function_length`  at most 40 lines without the docstring; `LONG_FUNCTIONS` may only shrink
* `hidden_names`     no name is made by writing into globals(): a reader and a type checker see it
* `unused_names`     each top-level name is used in the package, the tests or the tools
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "rushlight"
# Where a name of the package may be used.
READERS = (PACKAGE, "tests", "tools", "examples", "benchmarks")

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 40

# File and reason.
LONG_FILES: dict[str, str] = {}
# FILE:function; take a line away when the function is short, add none.
LONG_FUNCTIONS: frozenset[str] = frozenset()


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
        self.name = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def finding(self, line: int, message: str) -> Finding:
        return Finding(self.name, line, message)


def read_sources(root: Path, folders: Iterable[str]) -> list[Source]:
    return [Source(path, root) for name in folders for path in sorted((root / name).rglob("*.py"))]


def file_length(source: Source) -> Iterator[Finding]:
    lines = len(source.text.splitlines())
    if lines > MOST_FILE_LINES and source.name not in LONG_FILES:
        yield source.finding(1, f"{lines} lines in one file, allowed are {MOST_FILE_LINES}")


def function_length(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = _body_lines(node)
        if lines > MOST_FUNCTION_LINES and f"{source.name}:{node.name}" not in LONG_FUNCTIONS:
            yield source.finding(
                node.lineno,
                f"{lines} lines in function {node.name}, allowed are {MOST_FUNCTION_LINES}",
            )


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of the function, decorators and docstring not counted."""
    first, last = function.lineno, function.end_lineno or function.lineno
    doc = function.body[0]
    if ast.get_docstring(function, clean=False) is not None and doc.end_lineno is not None:
        return last - first + 1 - (doc.end_lineno - doc.lineno + 1)
    return last - first + 1


def hidden_names(source: Source) -> Iterator[Finding]:
    """`globals()`, except where a module's __getattr__ keeps what it found."""
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id in ("globals", "vars") and not node.args and not _in_getattr(source, node):
            yield source.finding(
                node.lineno, "a name found or made through globals(); write it as a name"
            )


def _in_getattr(source: Source, node: ast.AST) -> bool:
    hooks = [
        f
        for f in source.tree.body
        if isinstance(f, ast.FunctionDef) and f.name in ("__getattr__", "__dir__")
    ]
    return any(node in ast.walk(hook) for hook in hooks)


# ------------------------------------------------------------------------------------ unused names


def unused_names(package: list[Source], readers: list[Source]) -> Iterator[Finding]:
    """Top-level names that no code names: neither as a name nor as a word in a string."""
    used: Counter[str] = Counter()
    for source in readers:
        used.update(_words(source.tree))
    for source in package:
        for name, node in _defined(source.tree):
            if not name.startswith("__") and not used[name]:
                yield source.finding(node.lineno, f"{name} is used nowhere")


def _defined(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.decorator_list or isinstance(node, ast.ClassDef):
                yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((item.id, node) for item in names if isinstance(item, ast.Name))


def _words(tree: ast.Module) -> Iterator[str]:
    """The names that code reads, and the words of its strings that are no documentation."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (word for item in node.names for word in item.name.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docs:
                yield from re.findall(r"\w+", node.value)


def findings(root: Path) -> list[Finding]:
    package = read_sources(root, (PACKAGE,))
    readers = read_sources(root, READERS)
    found = [
        finding
        for source in package
        for rule in (file_length, function_length, hidden_names)
        for finding in rule(source)
    ]
    return sorted([*found, *unused_names(package, readers)])


def main() -> int:
    found = findings(ROOT)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
