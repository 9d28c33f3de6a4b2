"""Guards: the Python values that a function reads, found from its code, and checked by content.

From a function the walk goes through closure cells, defaults, the globals its bytecode names (and
those of the user functions it calls), attributes of objects, and containers. What it reads in ways
nobody can check (random numbers, the clock, files, printing) is reported as unguardable.

>>> scale = 2.0
>>> def f(x): return x * scale
>>> snapshot = take_snapshot(f)
>>> snapshot.holds()
True
"""

from __future__ import annotations

import builtins
import functools
import sysconfig
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIMPLE = (type(None), bool, int, float, complex, str, bytes)
MAX_CHECKS = 20_000
MAX_DEPTH = 6
UNGUARDABLE_MODULES = ("random", "time", "datetime", "secrets", "uuid", "numpy.random")
UNGUARDABLE_BUILTINS = ("print", "input", "open")
_PACKAGE = str(Path(__file__).parent.parent)
_LIBRARIES = tuple(
    sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


@dataclass(slots=True)
class Check:
    """`read()` gave `value`: equal by type and content when `simple`, else the same object."""

    read: Callable[[], Any]
    value: Any
    simple: bool
    name: str

    def holds(self) -> bool:
        try:
            now = self.read()
        except (KeyError, AttributeError, IndexError, ValueError):
            return False
        if not self.simple:
            return now is self.value
        return now.__class__ is self.value.__class__ and (now == self.value or now != now)


@dataclass
class Snapshot:
    """Everything a function was seen to read. `unguardable`: why it can never be replayed."""

    checks: list[Check] = field(default_factory=list)
    unguardable: str = ""

    def holds(self) -> bool:
        return all(check.holds() for check in self.checks)

    def changed(self) -> list[Check]:
        return [check for check in self.checks if not check.holds()]


class _Absent:
    pass


ABSENT = _Absent()


def take_snapshot(fn: Any, is_leaf: Callable[[Any], bool] = lambda value: False) -> Snapshot:
    """`is_leaf(value)`: objects that are guarded by identity alone (tensors)."""
    walk = _Walk(is_leaf)
    walk.callable(fn, getattr(fn, "__name__", "fn"), 0)
    return walk.snapshot


class _Walk:
    def __init__(self, is_leaf: Callable[[Any], bool]) -> None:
        self.is_leaf = is_leaf
        self.snapshot = Snapshot()
        self.seen: set[int] = set()
        self.keep: list[Any] = []  # keeps ids in `seen` from being used again

    def _note(self, read: Callable[[], Any], value: Any, simple: bool, name: str) -> None:
        if len(self.snapshot.checks) >= MAX_CHECKS:
            self.snapshot.unguardable = f"it reads more than {MAX_CHECKS} Python values"
            return
        self.snapshot.checks.append(Check(read, value, simple, name))

    def value(self, read: Callable[[], Any], value: Any, name: str, depth: int) -> None:
        """Guard one value and what is inside it."""
        simple = isinstance(value, SIMPLE)
        self._note(read, value, simple, name)
        if simple or self.is_leaf(value) or id(value) in self.seen or depth > MAX_DEPTH:
            return
        self.seen.add(id(value))
        self.keep.append(value)
        if isinstance(value, dict):
            self._mapping(value, name, depth)
        elif isinstance(value, (list, tuple)):
            self._sequence(value, name, depth)
        elif isinstance(value, (set, frozenset)):
            self._note(lambda: len(value), len(value), True, f"len({name})")
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif callable(value) and isinstance(
            value, (types.FunctionType, types.MethodType, functools.partial)
        ):
            self.callable(value, name, depth + 1)
        elif not isinstance(value, type) and hasattr(value, "__dict__"):
            self._mapping(vars(value), name, depth)

    def _mapping(self, mapping: dict, name: str, depth: int) -> None:
        self._note(lambda: len(mapping), len(mapping), True, f"len({name})")
        for key, inner in list(mapping.items()):
            label = f"{name}.{key}" if isinstance(key, str) else f"{name}[...]"
            self.value(_item(mapping, key), inner, label, depth + 1)

    def _sequence(self, items: Any, name: str, depth: int) -> None:
        self._note(lambda: len(items), len(items), True, f"len({name})")
        for position, inner in enumerate(items):
            self.value(_item(items, position), inner, f"{name}[{position}]", depth + 1)

    def _module(self, module: types.ModuleType) -> None:
        if module.__name__ in UNGUARDABLE_MODULES:
            self._refuse(f"it uses the module {module.__name__}")

    def _refuse(self, reason: str) -> None:
        if not self.snapshot.unguardable:
            self.snapshot.unguardable = reason

    def callable(self, fn: Any, name: str, depth: int) -> None:
        if isinstance(fn, functools.partial):
            self.callable(fn.func, name, depth)
            self._sequence(fn.args, f"{name}.args", depth)
            self._mapping(fn.keywords, f"{name}.keywords", depth)
            return
        if isinstance(fn, types.MethodType):
            owner = fn.__self__
            self.value(lambda: fn.__self__, owner, f"{name}.__self__", depth)
            fn = fn.__func__
        elif not isinstance(fn, types.FunctionType):
            call = getattr(type(fn), "forward", None) or getattr(type(fn), "__call__", None)  # noqa: B004
            self.value(lambda: fn, fn, name, depth)
            fn = call
        if isinstance(fn, types.FunctionType) and _is_user_code(fn.__code__):
            self._function(fn, name, depth)

    def _function(self, fn: types.FunctionType, name: str, depth: int) -> None:
        for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self.value(_cell(cell), content, free, depth + 1)
        for position, default in enumerate(fn.__defaults__ or ()):
            self.value(_default(fn, position), default, f"{name} default", depth + 1)
        for global_name in _names(fn.__code__):
            if global_name in fn.__globals__:
                read = _item(fn.__globals__, global_name)
                self.value(read, fn.__globals__[global_name], global_name, depth + 1)
            elif global_name in UNGUARDABLE_BUILTINS and hasattr(builtins, global_name):
                self._refuse(f"it calls {global_name}()")


def _names(code: types.CodeType) -> Iterator[str]:
    """Names of globals (and attributes) of a code object and of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_user_code(code: types.CodeType) -> bool:
    name = code.co_filename
    return not name.startswith((_PACKAGE, "<frozen", *_LIBRARIES)) or name.startswith("<stdin")


def _item(container: Any, key: Any) -> Callable[[], Any]:
    return lambda: container[key]


def _cell(cell: types.CellType) -> Callable[[], Any]:
    return lambda: cell.cell_contents


def _default(fn: types.FunctionType, position: int) -> Callable[[], Any]:
    return lambda: fn.__defaults__[position]  # type: ignore[index]
