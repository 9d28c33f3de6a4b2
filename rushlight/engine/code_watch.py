"""What a call runs: every Python function, and every C function that user code calls.

In: a call made while a `CodeWatch` is open. Out: the code objects that ran, with their globals,
and the first thing that nobody can check or repeat (printing, files, clocks, random numbers of
other libraries). Always true: what is not known to be harmless is refused. Imports are not looked
into: they run once, and what they bring is seen when it is called.

`names_of(code)` says which globals and attributes a code object can read, from its bytecode.
"""

from __future__ import annotations

import dis
import functools
import gc
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushlight.base.errors import user_line

_ROOT = __name__.partition(".")[0]
_PACKAGE = str(Path(__file__).parent.parent) + "/"
_PATHS = sysconfig.get_paths()
_SITE = tuple(_PATHS[name] + "/" for name in ("purelib", "platlib"))
_STDLIB = tuple(_PATHS[name] + "/" for name in ("stdlib", "platstdlib"))

# Libraries that this package calls; user code that calls them is refused like any unknown code.
# They may lie in another environment, which this one sees through PYTHONPATH.
_LIBRARIES = tuple(
    str(Path(spec.origin).parent) + "/"
    for spec in map(importlib.util.find_spec, ("numpy", "ml_dtypes", "llvmlite", "scipy"))
    if spec is not None and spec.origin is not None
)

# Modules of the standard library whose functions depend on their arguments alone.
PURE_MODULES = frozenset(
    """functools contextlib collections _collections _collections_abc operator _operator itertools
    typing dataclasses abc _abc enum math cmath copy copyreg types re string numbers fractions
    decimal statistics bisect _bisect heapq _heapq weakref _weakrefset _weakref textwrap keyword
    struct _struct _functools inspect reprlib""".split()
)
IMPURE_BUILTINS = frozenset(
    "print input open exec eval compile __import__ globals locals breakpoint".split()
)
BY_NAME_BUILTINS = frozenset("getattr setattr hasattr delattr vars dir".split())
_PLAIN = (
    list, dict, tuple, str, bytes, set, frozenset, int, float, complex, range, slice,
    types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()),
    types.GeneratorType,
)  # fmt: skip
# Every import that is not in sys.modules passes through this function, and so do the finders that
# other packages put into sys.meta_path (setuptools does in each venv of Python 3.11).
_FIND_AND_LOAD: types.CodeType = vars(sys.modules["_frozen_importlib"])["_find_and_load"].__code__
# Methods of ours that show what a replay may not assume.
_SHOWING = frozenset(("Tensor.storage_offset", "Tensor._version", "Tensor.output_nr"))


@functools.cache
def kind_of_file(filename: str) -> str:
    """ "package" (ours), "stdlib" (and the libraries we use) or "user"."""
    if filename.startswith(_PACKAGE):
        return "package"
    if filename.startswith(_LIBRARIES):
        return "stdlib"
    if filename.startswith(_SITE):
        return "user"
    return "stdlib" if filename.startswith((*_STDLIB, "<frozen")) else "user"


def kind_of_code(code: types.CodeType, namespace: dict) -> str:
    """As for files; code without one (what dataclasses write) belongs to its module."""
    if code.co_filename.startswith("<") and not code.co_filename.startswith("<frozen"):
        root = str(namespace.get("__name__", "")).partition(".")[0]
        if root == _ROOT or root.startswith("namedtuple_"):  # a `__new__` that collections writes
            return "package"
        return "stdlib" if root in PURE_MODULES else "user"
    return kind_of_file(code.co_filename)


@dataclass(frozen=True)
class Names:
    """Names in one code object and in the functions inside it."""

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]
    inner: frozenset[int]  # ids of the code objects inside


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> Names:
    found: dict[str, set] = {"globals": set(), "attributes": set(), "imports": set()}
    inner: set[int] = set()
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name.endswith(("_GLOBAL", "_NAME")) and name != "IMPORT_NAME":
            found["globals"].add(instruction.argval)
        elif name.endswith(("_ATTR", "LOAD_METHOD")):
            found["attributes"].add(instruction.argval)
        elif name == "IMPORT_NAME":
            found["imports"].add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inside = names_of(constant)
            inner |= {id(constant)} | inside.inner
            for kind, names in found.items():
                names |= getattr(inside, kind)
        else:
            parts = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
            found["attributes"].update(p for p in parts if isinstance(p, str) and p.isidentifier())
    names_found = {kind: frozenset(names) for kind, names in found.items()}
    return Names(**names_found, inner=frozenset(inner))


@dataclass
class Codes:
    """Code that ran. `by_name`: user code looks attributes up by computed names."""

    ran: dict[tuple[int, int], tuple[types.CodeType, dict]] = field(default_factory=dict)
    by_name: bool = False

    def add(self, other: Codes) -> bool:
        """Is there anything new in the other?"""
        before = len(self.ran), self.by_name
        self.ran.update(other.ran)
        self.by_name |= other.by_name
        return before != (len(self.ran), self.by_name)

    def user(self) -> list[tuple[types.CodeType, dict]]:
        return [pair for pair in self.ran.values() if kind_of_code(*pair) == "user"]

    def guarded(self) -> list[Any]:
        """What modules of ours whose code ran read and others change: their GUARDED."""
        spaces = {id(namespace): namespace for _, namespace in self.ran.values()}
        return [value for space in spaces.values() for value in space.get("GUARDED", ())]

    def attributes(self) -> frozenset[str]:
        """Every attribute name that the code, ours included, can read without computing it."""
        return frozenset().union(*(names_of(code).attributes for code, _ in self.ran.values()))


class CodeWatch:
    """A context manager; afterwards `codes` and `refusal` ("" if all is harmless).

    Of 200,000 events of a training step nearly all are of code of ours that was seen before:
    `_ours` has the ids of such code, whose calls need no further look.
    """

    def __init__(self) -> None:
        self.codes = Codes()
        self.refusal = ""
        self._mine = self._collects = False
        self._ours: set[int] = set()

    def __enter__(self) -> CodeWatch:
        if sys.getprofile() is not None:
            self._refuse("a profiler is watching")
        else:
            self._mine = True
            self._collects = gc.isenabled()
            gc.disable()  # its callbacks are not code of the call
            self._see = self._watcher()
            sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        if self._mine:
            sys.setprofile(None)
            if self._collects:
                gc.enable()

    def _refuse(self, reason: str) -> None:
        if not self.refusal:
            where = user_line()
            self.refusal = f"{reason} ({where})" if where else reason

    def _watcher(self) -> Callable[[Any, str, Any], None]:
        ours, see_call, see_c_call = self._ours, self._see_call, self._see_c_call

        def see(frame: Any, event: str, arg: Any) -> None:
            if event == "call":
                if id(frame.f_code) not in ours:
                    see_call(frame, frame.f_code)
            elif event == "c_call" and id(frame.f_code) not in ours:
                if kind_of_code(frame.f_code, frame.f_globals) == "user":
                    see_c_call(arg)

        return see

    def _see_import(self, importing: Any) -> None:
        """Look away until this frame, of an import, returns."""

        def see(frame: Any, event: str, arg: Any) -> None:
            if frame is importing and event == "return":
                sys.setprofile(self._see)

        sys.setprofile(see)

    def _see_call(self, frame: Any, code: types.CodeType) -> None:
        if code is _FIND_AND_LOAD:
            self._see_import(frame)
            return
        self.codes.ran.setdefault((id(code), id(frame.f_globals)), (code, frame.f_globals))
        kind = kind_of_code(code, frame.f_globals)
        if kind == "package" and code.co_qualname not in _SHOWING:
            self._ours.add(id(code))
            return
        caller = frame.f_back
        if kind == "user" or caller is None:
            return
        if kind_of_code(caller.f_code, caller.f_globals) != "user":
            return
        if kind == "package":
            self._refuse(f"it reads {code.co_qualname}")
            return
        module = frame.f_globals.get("__name__", "?")
        if module.partition(".")[0] not in PURE_MODULES:
            self._refuse(f"it calls {module}.{code.co_qualname}()")

    def _see_c_call(self, function: Any) -> None:
        name = getattr(function, "__name__", "?")
        owner = getattr(function, "__self__", None)
        module = getattr(function, "__module__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            if module == "builtins":
                if name in IMPURE_BUILTINS:
                    self._refuse(f"it calls {name}()")
                self.codes.by_name |= name in BY_NAME_BUILTINS
                return
            if module in PURE_MODULES:
                return
        elif isinstance(owner, _PLAIN) or any(owner is plain for plain in _PLAIN):
            return
        elif type(owner).__module__ in PURE_MODULES or name == "__init_subclass__":
            return
        elif name in ("__init__", "__new__", "__setattr__", "__getattribute__"):
            self.codes.by_name |= "attr" in name
            return
        of = module or type(owner).__qualname__
        self._refuse(f"it calls {of}.{name}()")
