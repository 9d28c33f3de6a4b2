"""Check the architecture of rushlight/ on the syntax tree: who may import whom, and some habits.

    python tools/arch_check.py            # exit 1 and one line FILE:LINE: message per violation

The rules, each one function below:

* `imports`         the arrows of `ARROWS`, also under TYPE_CHECKING; sibling backends stay apart;
                    `EXCEPTIONS` names the single files that may do more
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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from findings import Finding

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "rushlight"

# A part of the package may import the parts named here, and itself. "backends/registry" is the file
# backends/__init__.py alone.
_CORE = {"base", "ir", "ops"}
_ENGINE = _CORE | {"compiler", "runtime", "autograd", "backends/registry", "engine"}
_FRONT = {"tensors", "nn", "optim", "attention", "losses", "distributed", "serialization", "utils"}
_PUBLIC = {"rushlight"}
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "ir": {"base"},
    "ops": {"base", "ir"},
    "autograd": _CORE,
    "compiler": _CORE,
    "runtime": {"base"},
    "backends/registry": _CORE | {"compiler", "runtime"},
    "backends": _CORE | {"compiler", "runtime", "backends/registry"},
    "engine": _CORE | {"compiler", "runtime", "backends/registry"},
    "tensors": _CORE | {"autograd", "engine", "runtime"},
    "attention": _CORE | {"autograd", "engine", "tensors"} | _PUBLIC,
    "distributed": _CORE
    | {"autograd", "engine", "tensors", "nn", "optim", "runtime"}
    | {"utils", "serialization", "amp", "overrides"}
    | _PUBLIC,
    "_subclasses": {"overrides", "utils"} | _PUBLIC,
    # Public namespaces that are one file at the top: they publish what `tensors` defines.
    "linalg": {"base", "tensors"},
    "special": {"tensors"},
    "masked": {"tensors"},
    "functional": {"tensors"},
    "fft": {"tensors"},
    "signal": _PUBLIC,
    "random": {"tensors"},
    "safetensors": {"serialization"},
    "amp": _PUBLIC,
    "cuda": {"amp", "base", "runtime", "tensors"} | _PUBLIC,
    # Names that PyTorch scripts ask for; what they know is in tensors/device_calls.py.
    "accelerator": {"base", "engine", "tensors"},
    "cpu": {"base"},
    "mps": {"tensors"},
    "mtia": set(),
    "xpu": {"engine", "tensors"},
    # Modules of PyTorch's that are one small part each, written on the public API.
    "jit": {"base"} | _PUBLIC,
    "types": _PUBLIC,
    "overrides": {"tensors"} | _PUBLIC,
    "sparse": {"overrides"} | _PUBLIC,
    "profiler": {"engine"} | _PUBLIC,
    "hub": {"base"} | _PUBLIC,
    "futures": set(),
    "monitor": set(),
    "_logging": {"base"},
    "quasirandom": _PUBLIC,
    "func": _CORE | {"autograd", "engine", "tensors", "utils"} | _PUBLIC,
    "distributions": _PUBLIC,
    "fx": {"overrides"} | _PUBLIC,
    "onnx": {"base"},
    "multiprocessing": set(),
    "storage": {"tensors"},
    "library": _PUBLIC,
    "_C": _PUBLIC,
    "_dynamo": {"compiler", "nn"} | _PUBLIC,
    "_inductor": {"base"},  # a few of its settings are heard: base/config.py, `tell`
    "version": set(),
    "__main__": {"cli"},
    "_utils": _PUBLIC,
    "_lowrank": _PUBLIC,
    "_tensor_str": {"tensors"},
    "_higher_order_ops": {"utils"} | _PUBLIC,
    "return_types": {"tensors"},
    "__config__": _PUBLIC,
    # Which names there are, and `import torch`. It knows nothing but errors and its own list.
    "names": {"base"},
    "as_torch": set(),
    # Modules and public names of what is computed there.
    "nn": _PUBLIC | {"attention", "losses"},
    "optim": _PUBLIC,
    # The checks of targets are those of the op cross_entropy.
    "losses": _PUBLIC | {"ops", "tensors"},
    # Loaded bytes become tensors without a copy; what is shared is written once (tensors.cells).
    "serialization": _PUBLIC | {"tensors"},
    "utils": {"base", "hub", "overrides"} | _PUBLIC,
    "export": _ENGINE | _FRONT | {"base", "fx", "overrides"} | _PUBLIC,
    "testing": _ENGINE | _FRONT | _PUBLIC,
    "cli": _ENGINE | _FRONT | {"export", "profiler", "testing"} | _PUBLIC,
    # rushlight/__init__.py gathers the public names of everything.
    "rushlight": _ENGINE | _FRONT | {"export", "profiler", "testing"},
}

# What every part but these may import: it knows nothing of any of them.
FOR_ALL = {"names"}
NOT_FOR = {"base", "ir", "names"}

# Single files that may import one module more than their part, each with the reason.
EXCEPTIONS: dict[str, set[str]] = {
    # nn.functional publishes the functions of the core one by one; they have no other public name.
    "rushlight/nn/functional.py": {"rushlight.tensors.functional"},
    "rushlight/nn/composed.py": {"rushlight.tensors.functional"},
    "rushlight/nn/multihead.py": {"rushlight.tensors.functional"},
}

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


@dataclass(frozen=True)
class Import:
    """One imported module of an import statement, with an absolute name."""

    line: int
    module: str
    in_function: bool


class Source:
    """One Python file of the package."""

    def __init__(self, path: Path, root: Path):
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.parts = path.relative_to(root / PACKAGE).with_suffix("").parts

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), self.name)

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

    @property
    def part(self) -> str:
        """The key of ARROWS that this file belongs to."""
        return part_of(self.parts)

    @property
    def is_impl(self) -> bool:
        return self.path.stem.endswith("_impl")

    def finding(self, line: int, message: str) -> Finding:
        return Finding(self.name, line, message)

    @cached_property
    def imports(self) -> list[Import]:
        found: list[Import] = []
        self._collect_imports(self.tree, False, found)
        return found

    def _collect_imports(self, node: ast.AST, in_function: bool, found: list[Import]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found += [Import(child.lineno, alias.name, in_function) for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                found += self._from_imports(child, in_function)
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if node is self.tree and getattr(child, "name", "") == "__getattr__":
                inner = False
            self._collect_imports(child, in_function or inner, found)

    def _from_imports(self, node: ast.ImportFrom, in_function: bool) -> list[Import]:
        """`from a import b` may name the module a.b or a name in a; a.b serves both."""
        base = node.module or ""
        if node.level:
            folder = [PACKAGE, *self.parts[:-1]]
            start = folder[: len(folder) - (node.level - 1)]
            base = ".".join([*start, *([node.module] if node.module else [])])
        return [
            Import(node.lineno, f"{base}.{alias.name}" if base else alias.name, in_function)
            for alias in node.names
        ]


def part_of(parts: tuple[str, ...]) -> str:
    """The key of ARROWS for a path or module below the package."""
    if not parts or parts[0] == "__init__":
        return PACKAGE
    if parts[0] == "backends" and (len(parts) == 1 or parts[1] == "__init__"):
        return "backends/registry"
    return parts[0]


def _module_parts(module: str) -> tuple[str, ...] | None:
    """The path below the package of one of its modules; None for a module of others."""
    head, *rest = module.split(".")
    return tuple(rest) if head == PACKAGE else None


# -------------------------------------------------------------------------------------------- rules

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
        if source.part not in ARROWS:
            known = ", ".join(sorted(ARROWS))
            yield source.finding(1, f"part {source.part!r} is not in ARROWS ({known})")
            return
        allowed = ARROWS[source.part] | {source.part}
        if source.part not in NOT_FOR:
            allowed |= FOR_ALL
        for imp in source.imports:
            parts = _module_parts(imp.module)
            if parts is None:
                continue
            target = self._target_part(parts)
            if _is_exception(source, imp):
                continue
            if target not in allowed:
                public = ARROWS[source.part] is _PUBLIC
                hint = "; it uses only `import rushlight as torch`" if public else ""
                yield source.finding(
                    imp.line, f"{source.part} may not import {imp.module} (part {target}){hint}"
                )
            elif source.part == target == "backends":
                yield from self._sibling_backends(source, imp, parts)

    def _sibling_backends(self, source: Source, imp: Import, parts) -> Iterator[Finding]:
        mine, other = source.parts[1], parts[1]
        if other not in (mine, "cfamily"):
            yield source.finding(
                imp.line, f"backend {mine} may not import backend {other}; share through cfamily"
            )

    def inner_imports(self, source: Source) -> Iterator[Finding]:
        for imp in source.imports:
            if not imp.in_function:
                continue
            if _module_parts(imp.module) is not None:
                yield source.finding(
                    imp.line, f"import of {imp.module} inside a function; move it to the top"
                )
            elif not source.is_impl:
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
        for imp in source.imports:
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
        for imp in source.imports:
            module, _, name = imp.module.rpartition(".")
            if module == "numpy" and name in NUMPY_COMPUTE | {"linalg", "fft"}:
                yield source.finding(imp.line, f"numpy.{name} computes; record an op instead")

    def todos(self, source: Source) -> Iterator[Finding]:
        if not re.search(TODO, source.path.read_text(encoding="utf-8")):
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
