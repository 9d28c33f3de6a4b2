"""Check what a reader of rushlight/ trips over: long files, long functions, names nobody uses.

    python tools/style_check.py            # exit 1 and one line FILE:LINE: message per violation

The rules, each one function below:

* `file_length`      at most 400 lines; `LONG_FILES` names the exceptions, each with its reason
* `function_length`  at most 40 lines without the docstring; `LONG_FUNCTIONS` may only shrink
* `hidden_names`     no name is made by writing into globals(): a reader and a type checker see it
* `private_names`    a `_name` is used in its own file only
* `unused_names`     each top-level name is public, or used in the package, the tests or the tools
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from source import PACKAGE, ROOT, Finding, Source

# Where a name of the package may be used.
READERS = (PACKAGE, "tests", "tools", "examples", "benchmarks")

PUBLIC_NAMES = "tests/arch/public_names.txt"

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 40

# File and reason.
LONG_FILES: dict[str, str] = {
    "rushlight/nn/modules/activation.py": "one small class per layer of PyTorch, mostly docstrings",
    "rushlight/nn/modules/loss.py": "one small class per loss of PyTorch, mostly docstrings",
    "rushlight/nn/modules/transformer.py": "an encoder and a decoder, mostly docstrings",
}
# FILE:function; take a line away when the function is short, add none.
LONG_FUNCTIONS = frozenset(
    {
        # The path of every op: one call less is a microsecond.
        "rushlight/tensors/apply.py:apply",
        # One transaction: what it looks at before and after must be seen together.
        "rushlight/tensors/compiled.py:_capture",
        # PyTorch's signatures with a dozen settings, each checked or kept.
        "rushlight/nn/modules/linear_cross_entropy.py:__init__",
        "rushlight/nn/multihead.py:multi_head_attention_forward",
        "rushlight/nn/modules/module_state.py:load_state_dict",
        "rushlight/nn/modules/multihead_attention.py:__init__",
        "rushlight/optim/lr_scheduler/cycles.py:__init__",
        "rushlight/utils/data/dataloader.py:__init__",
    }
)
# Written by tools: their length and their unused names are nobody's choice.
GENERATED = "_generated_"


Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_sources(root: Path, folders: Iterable[str]) -> list[Source]:
    paths = (path for name in folders for path in sorted((root / name).rglob("*.py")))
    return [Source(path, root) for path in paths if not path.name.startswith(GENERATED)]


def file_length(source: Source) -> Iterator[Finding]:
    lines = len(source.text.splitlines())
    if lines > MOST_FILE_LINES and source.name not in LONG_FILES:
        yield source.finding(1, f"{lines} lines in one file, allowed are {MOST_FILE_LINES}")


def function_length(source: Source) -> Iterator[Finding]:
    for node in functions(source):
        lines = body_lines(node)
        if lines > MOST_FUNCTION_LINES and f"{source.name}:{node.name}" not in LONG_FUNCTIONS:
            yield source.finding(
                node.lineno,
                f"{lines} lines in function {node.name}, allowed are {MOST_FUNCTION_LINES}",
            )


def functions(source: Source) -> Iterator[Function]:
    return (node for node in ast.walk(source.tree) if isinstance(node, Function))


def body_lines(function: Function) -> int:
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


def private_names(source: Source, modules: frozenset[str]) -> Iterator[Finding]:
    """`from rushlight.a import _b`, and `a._b` where `a` is an imported file of the package.

    _NormBase and the like are PyTorch's names of base classes: only `_[a-z]` counts.
    """
    aliases: dict[str, str] = {}
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)):
            continue
        for item in node.names:
            if re.match("_[a-z]", item.name):
                yield source.finding(node.lineno, f"{item.name} is private to {node.module}")
            if f"{node.module}.{item.name}" in modules:
                aliases[item.asname or item.name] = f"{node.module}.{item.name}"
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id in aliases and re.match("_[a-z]", node.attr):
            yield source.finding(node.lineno, f"{node.attr} is private to {aliases[node.value.id]}")


# ------------------------------------------------------------------------------------ unused names


def unused_names(
    package: list[Source], readers: list[Source], public: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    """Top-level names that no other code names: neither as a name nor as a word in a string.

    public: names that users read ("rushlight.linalg.inv"), see tests/arch/public_names.txt.
    """
    used: Counter[str] = Counter()
    for source in readers:
        used.update(_words(source.tree))
    for source in package:
        for name, node in _defined(source.tree):
            # What a function says of itself (a recursion) is no use.
            inside = sum(word == name for word in _words(node))
            is_public = name.startswith("__") or f"{source.module}.{name}" in public
            if not is_public and used[name] == inside:
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


def _words(tree: ast.AST) -> Iterator[str]:
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
    modules = frozenset(source.module for source in package)
    found += [finding for source in package for finding in private_names(source, modules)]
    listed = root / PUBLIC_NAMES
    public = frozenset(listed.read_text(encoding="utf-8").split() if listed.exists() else ())
    return sorted([*found, *unused_names(package, readers, public)])


def main() -> int:
    found = findings(ROOT)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
