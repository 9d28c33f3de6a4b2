"""Check the architecture of rushlight/ on the syntax tree: who may import whom, and some habits.

    python tools/arch_check.py            # exit 1 and one line FILE:LINE: message per violation

The rules, each one function below:

* `imports`         the arrows of arrows.py, also under TYPE_CHECKING; sibling backends stay apart;
                    EXCEPTIONS there names the single files that may do more
* `inner_imports`   none inside a function, except third-party packages in a file `*_impl.py` and
                    what a module's own `__getattr__` defers
* `backend_names`   no comparison with the name of a backend outside rushlight/backends
* `environment`     only base/config.py reads the environment
* `numpy_compute`   no arithmetic by numpy where the compiler's own kernels must do it
* `todos`           a TODO carries its issue: TODO(#12)
"""

import argparse
import ast
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from arrows import ARROWS, EXCEPTIONS, FOR_ALL, NOT_FOR, PUBLIC, part_of
from imports import Import, imports_of, parts_of
from source import PACKAGE, ROOT, Finding, Source

# Parts whose arithmetic must come from our own kernels. numpy may hold and move data there.
NO_NUMPY_COMPUTE = ("backends/llvm", "engine", "autograd")
NUMPY_COMPUTE = frozenset(
    "matmul dot vdot inner outer einsum tensordot convolve correlate "
    "add subtract multiply divide true_divide power float_power mod remainder negative "
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt square reciprocal "
    "sin cos tan tanh sinh cosh arctan arcsin arccos "
    "sum mean std var cumsum cumprod nansum average median "
    "maximum minimum fmax fmin clip amax amin argmax argmin where "
    "sort argsort partition argpartition unique".split()
)

# Names of backends that mean something else as often as not.
ORDINARY_WORDS = {"c", "null"}

TODO = r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))"

Rule = Callable[[Source], Iterator[Finding]]


class Checker:
    """The rules, over the files of one root."""

    def __init__(self, root: Path):
        self.root = root
        package = root / PACKAGE
        self.sources = [Source(path, root) for path in sorted(package.rglob("*.py"))]
        folders = package / "backends"
        self.backends = sorted(
            path.name
            for path in (folders.iterdir() if folders.is_dir() else ())
            if path.is_dir() and path.name not in ("cfamily", "__pycache__")
        )
        self.folders = {path.name for path in package.iterdir() if path.is_dir()}

    def run(self) -> list[Finding]:
        rules = (
            self.imports,
            self.inner_imports,
            self.backend_names,
            self.environment,
            self.numpy_compute,
            self.todos,
        )
        return sorted({f for source in self.sources for f in self._check(source, rules)})

    def _check(self, source: Source, rules: Iterable[Rule]) -> Iterator[Finding]:
        if not source.is_python:
            yield source.finding(1, "is not Python (a syntax error)")
            return
        for rule in rules:
            yield from rule(source)

    def _target_part(self, parts: tuple[str, ...]) -> str:
        """The part that an import reaches; a public name of the package itself is 'rushlight'."""
        if parts and parts[0] not in self.folders:
            return PACKAGE
        if parts and parts[0] == "backends" and len(parts) > 1:
            is_folder = (self.root / PACKAGE / "backends" / parts[1]).is_dir()
            return "backends" if is_folder else "backends/registry"
        return part_of(parts)

    def imports(self, source: Source) -> Iterator[Finding]:
        part = part_of(source.parts)
        if part not in ARROWS:
            known = ", ".join(sorted(ARROWS))
            yield source.finding(1, f"part {part!r} is not in ARROWS ({known})")
            return
        allowed = ARROWS[part] | {part} | (set() if part in NOT_FOR else FOR_ALL)
        for imp in imports_of(source):
            parts = parts_of(imp.module)
            if parts is None or _is_exception(source, imp):
                continue
            target = self._target_part(parts)
            if target not in allowed:
                hint = "; it uses only `import rushlight as torch`"
                yield source.finding(
                    imp.line,
                    f"{part} may not import {imp.module} (part {target})"
                    f"{hint if ARROWS[part] is PUBLIC else ''}",
                )
            elif part == target == "backends":
                yield from self._sibling_backends(source, imp, parts)

    def _sibling_backends(
        self, source: Source, imp: Import, parts: tuple[str, ...]
    ) -> Iterator[Finding]:
        mine, other = source.parts[1], parts[1]
        if other not in (mine, "cfamily"):
            yield source.finding(
                imp.line, f"backend {mine} may not import backend {other}; share through cfamily"
            )

    def inner_imports(self, source: Source) -> Iterator[Finding]:
        for imp in imports_of(source):
            if not imp.in_function:
                continue
            if parts_of(imp.module) is not None:
                yield source.finding(
                    imp.line, f"import of {imp.module} inside a function; move it to the top"
                )
            elif not source.path.stem.endswith("_impl"):
                yield source.finding(
                    imp.line,
                    f"import of {imp.module} inside a function; only *_impl.py files may defer"
                    " third-party packages",
                )

    def backend_names(self, source: Source) -> Iterator[Finding]:
        if source.parts[0] == "backends":
            return
        for node in source.nodes:
            if isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
                subject = " ".join(ast.unparse(operand) for operand in operands)
            elif isinstance(node, ast.Match):
                operands = [
                    pattern.value
                    for case in node.cases
                    for pattern in ast.walk(case.pattern)
                    if isinstance(pattern, ast.MatchValue)
                ]
                subject = ast.unparse(node.subject)
            else:
                continue
            for name in self._backend_literals(operands, subject):
                yield source.finding(
                    node.lineno, f"comparison with the backend name {name!r}; ask its caps"
                )

    def _backend_literals(self, operands: list[ast.expr], subject: str) -> Iterator[str]:
        about_backends = re.search("backend|target|device", subject) is not None
        for operand in operands:
            is_group = isinstance(operand, ast.Tuple | ast.List | ast.Set)
            for item in operand.elts if is_group else [operand]:
                name = item.value if isinstance(item, ast.Constant) else None
                # "c" and "null" are also ordinary words.
                if name in self.backends and (about_backends or name not in ORDINARY_WORDS):
                    yield str(name)

    def environment(self, source: Source) -> Iterator[Finding]:
        if source.parts == ("base", "config"):
            return
        message = "only base/config.py reads the environment; add a setting there"
        for node in source.nodes:
            if _is_attribute_of(node, "os", {"environ", "environb", "getenv", "putenv"}):
                yield source.finding(node.lineno, message)
        for imp in imports_of(source):
            if imp.module in ("os.environ", "os.environb", "os.getenv", "os.putenv"):
                yield source.finding(imp.line, message)

    def numpy_compute(self, source: Source) -> Iterator[Finding]:
        folder = "/".join(source.parts[:-1])
        if not any(folder == p or folder.startswith(p + "/") for p in NO_NUMPY_COMPUTE):
            return
        for node in source.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                yield source.finding(node.lineno, "matrix product by numpy; record an op instead")
            elif _is_attribute_of(node, "np", NUMPY_COMPUTE | {"linalg", "fft"}) or (
                _is_attribute_of(node, "numpy", NUMPY_COMPUTE | {"linalg", "fft"})
            ):
                yield source.finding(node.lineno, f"np.{node.attr} computes; record an op instead")
        for imp in imports_of(source):
            module, _, name = imp.module.rpartition(".")
            if module == "numpy" and name in NUMPY_COMPUTE | {"linalg", "fft"}:
                yield source.finding(imp.line, f"numpy.{name} computes; record an op instead")

    def todos(self, source: Source) -> Iterator[Finding]:
        if not re.search(TODO, source.text):
            return
        with open(source.path, "rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT and re.search(TODO, token.string):
                    yield source.finding(token.start[0], "a TODO needs its issue: TODO(#n)")


def _is_exception(source: Source, imp: Import) -> bool:
    modules = EXCEPTIONS.get(source.name, set())
    return any(imp.module == m or imp.module.startswith(m + ".") for m in modules)


def _is_attribute_of(node: ast.AST, name: str, attributes: set[str] | frozenset[str]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and node.attr in attributes
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check import directions and habits.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    args = parser.parse_args(argv)
    checker = Checker(args.root)
    findings = checker.run()
    for finding in findings:
        print(finding)
    print(f"{len(checker.sources)} files, {len(findings)} violations", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
