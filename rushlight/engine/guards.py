"""Guards: the Python values that a call reads, and whether they are still the same.

`take_snapshot` walks from a function through closure cells, defaults, the globals its code names,
attributes that some code names, classes, containers by content. `Snapshot.holds` then compares
everything by identity; only where that fails, numbers and texts are compared by value. Objects
whose state nobody can see are reported as unguardable.

>>> scale = 2.0
>>> def f(x): return x * scale
>>> snapshot = take_snapshot(f).seal()
>>> snapshot.holds()
True
"""

from __future__ import annotations

import enum
import functools
import sys
import types
import weakref
from collections import deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rushlight.engine.checks import SIMPLE, is_plain
from rushlight.engine.code_watch import PURE_MODULES, Codes, kind_of_code, kind_of_file, names_of
from rushlight.engine.snapshot import Snapshot

MAX_CHECKS = 50_000
MAX_ARRAY_BYTES = 1 << 16
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_TupleGetter: type = type(namedtuple("_Fields", "field").field)  # type: ignore[attr-defined]
# Never change, or have no state that a program can read.
_CONSTANT = (
    type, types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.CodeType, range, slice, property, enum.Enum, np.dtype,
    np.generic, np.ufunc, types.EllipsisType, types.NotImplementedType, _TupleGetter,
)  # fmt: skip
_CONSTANT_MODULES = frozenset(
    "re decimal fractions datetime pathlib typing types functools _thread threading".split()
)


class Ways:
    """What the walk is told about objects of the layers above.

    is_tensor(x)  guarded as a tensor
    parts(x)      what a tensor calls (its hooks)
    is_opaque(x)  guarded by identity alone
    unwrap(x)     the function behind a compiled one, else x
    """

    is_tensor: Callable[[Any], bool] = staticmethod(lambda value: False)
    parts: Callable[[Any], Iterable[Any]] = staticmethod(lambda value: ())
    is_opaque: Callable[[Any], bool] = staticmethod(lambda value: False)
    unwrap: Callable[[Any], Any] = staticmethod(lambda value: value)


def take_snapshot(
    fn: Any, codes: Codes | None = None, objects: tuple = (), ways: type[Ways] = Ways
) -> Snapshot:
    """`codes`: code known to run; `objects`: arguments that are not tensors or numbers."""
    codes = codes or Codes()
    walk = _Walk(codes, ways)
    walk.value(ways.unwrap(fn), getattr(fn, "__name__", "the function"))
    for value in objects:
        walk.value(value, "an argument")
    for code, namespace in codes.user():
        walk.names(code, namespace)
    for value in codes.guarded():
        walk.value(value, "what all modules have")
    walk.check_found(codes)
    return walk.snapshot


class _Walk:
    def __init__(self, codes: Codes, ways: type[Ways]) -> None:
        self.ways = ways
        self.snapshot = Snapshot()
        self.attributes = codes.attributes()
        self.asked = frozenset().union(*(names_of(code).attributes for code, _ in codes.user()))
        self.everything = codes.by_name
        self.functions: set[int] = set()  # ids of codes whose function was found
        self.classes: set[type] = set()
        self.named: set[tuple[int, str]] = set()

    def refuse(self, reason: str) -> None:
        if not self.snapshot.unguardable:
            self.snapshot.unguardable = reason

    def value(self, value: Any, name: str) -> None:  # noqa: C901  (one branch for a kind of value)
        """Note what is inside a value; its holder guards the value itself."""
        if is_plain(value) or not self.snapshot.enter(value):
            return
        if self.snapshot.count > MAX_CHECKS:
            self.refuse(f"it reads more than {MAX_CHECKS} Python values")
            return
        if self.ways.is_tensor(value):
            self.snapshot.tensors.append(value)
            for part in self.ways.parts(value):
                self.value(part, f"a hook of {name}")
            if value.__dict__ or self.everything:
                self.whole_dict(value.__dict__, name)
        elif isinstance(value, (dict, types.MappingProxyType)):
            self.whole_dict(value, name)
            self.class_of_container(value, name)
        elif isinstance(value, (list, tuple, deque, set, frozenset)):
            self.items(value, name)
            self.class_of_container(value, name)
        elif isinstance(value, types.ModuleType):
            self.module(value, name)
        elif isinstance(value, _FUNCTIONS):
            self.function(value, name)
        elif isinstance(value, type):
            self.owner_class(value)
        else:
            self.instance(value, name)

    def items(self, value: Any, name: str) -> None:
        if isinstance(value, (set, frozenset)):
            self.snapshot.add_other(functools.partial(_ids, value), name)
        else:
            self.snapshot.add_sequence(value, name)
        for position, inner in enumerate(value):
            self.value(inner, f"{name}[{position}]")

    def class_of_container(self, value: Any, name: str) -> None:
        """What one of a user's class has besides its items."""
        if any(map(_is_user_class, type(value).__mro__)):
            self.owner_class(type(value))
            space = getattr(value, "__dict__", None)
            if isinstance(space, dict):
                self.attributes_of(value, space, name)

    def whole_dict(self, mapping: Any, name: str) -> None:
        self.snapshot.add_dict(mapping, name)
        for key, inner in list(mapping.items()):
            self.value(inner, f"{name}[{key!r}]" if isinstance(key, (str, int)) else f"{name}[...]")
            if not isinstance(key, SIMPLE):
                self.value(key, f"a key of {name}")

    def some_of(self, mapping: Any, names: Any, name: str) -> None:
        """Entries of a namespace that code names; that the others named stay absent."""
        here = sorted(n for n in names if n in mapping)
        self.snapshot.add_entries(mapping, here, name)
        self.snapshot.add_absent(mapping, frozenset(names).difference(here), name)
        for n in here:
            self.value(self.ways.unwrap(mapping[n]), f"{name}.{n}" if name else n)

    def module(self, module: types.ModuleType, name: str) -> None:
        origin = getattr(module, "__file__", None)
        kind = kind_of_file(origin) if origin else "user"
        if module.__name__ in sys.builtin_module_names:
            kind = "stdlib"
        root = module.__name__.partition(".")[0]
        if kind == "package" or root in PURE_MODULES:
            return
        space = vars(module)
        here = [n for n in self.attributes if n in space]
        if kind == "stdlib":  # functions of impure modules are seen when they are called
            here = [n for n in here if not callable(space[n])]
        self.snapshot.add_entries(space, sorted(here), name)
        for n in here:
            self.value(space[n], f"{name}.{n}")

    # functions ----------------------------------------------------------------------------------

    def function(self, fn: Any, name: str) -> None:
        if isinstance(fn, functools.partial):
            self.value(fn.func, name)
            self.value(fn.args, f"{name}.args")
            self.value(fn.keywords, f"{name}.keywords")
            return
        if isinstance(fn, types.MethodType):
            self.value(fn.__self__, f"{name}.__self__")
            self.value(fn.__func__, name)
            return
        wrapped = fn.__dict__.get("__wrapped__")
        if wrapped is not None:
            self.value(self.ways.unwrap(wrapped), name)
        if kind_of_code(fn.__code__, fn.__globals__) != "user":
            return
        self.functions.add(id(fn.__code__))
        self.snapshot.add_function(fn, name)
        self.value(fn.__defaults__ or (), f"defaults of {name}")
        self.value(fn.__kwdefaults__ or {}, f"defaults of {name}")
        for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
            try:
                content = self.ways.unwrap(cell.cell_contents)
            except ValueError:
                self.snapshot.add_other(functools.partial(_is_empty, cell), free)
                continue
            self.snapshot.add_cell(cell, free)
            self.value(content, free)
        if fn.__dict__:
            self.whole_dict(fn.__dict__, name)
        self.names(fn.__code__, fn.__globals__)

    def names(self, code: types.CodeType, namespace: dict) -> None:
        """The globals that a code object names."""
        found = names_of(code)
        impure = [n for n in found.imports if not _is_harmless_import(n.partition(".")[0])]
        if impure:
            self.refuse(f"{code.co_qualname} imports {impure[0]}")
        builtin = namespace.get("__builtins__", {})
        known = builtin if isinstance(builtin, dict) else vars(builtin)
        names = [
            n for n in found.globals
            if (id(namespace), n) not in self.named and (n in namespace or n not in known)
        ]  # fmt: skip
        self.named.update((id(namespace), n) for n in names)
        self.some_of(namespace, names, "")

    def check_found(self, codes: Codes) -> None:
        """Each function that ran was met on the walk, so its defaults and closure are guarded."""
        inside: set[int] = set()
        for code, _ in codes.user():
            inside |= names_of(code).inner
        for code, _ in codes.user():
            if id(code) not in self.functions and id(code) not in inside:
                plain = set(code.co_freevars) <= {"__class__"} and not code.co_argcount
                if code.co_name == "<module>" or not plain:
                    self.refuse(f"it runs {code.co_qualname}, which was not found from its names")

    # objects ------------------------------------------------------------------------------------

    def instance(self, value: Any, name: str) -> None:
        kind = type(value)
        if kind is object or self.ways.is_opaque(value) or isinstance(value, _CONSTANT):
            return
        if isinstance(value, np.ndarray):
            self.array(value, name)
            return
        if isinstance(value, weakref.ref):
            self.snapshot.add_other(value, name)
            self.value(value(), name)
            return
        if isinstance(value, (bytearray, memoryview)):
            self.snapshot.add_other(functools.partial(bytes, value), name)
            return
        inner = getattr(value, "__wrapped__", None)
        if inner is not None and isinstance(inner, _FUNCTIONS):  # functools.cache and the like
            self.value(inner, name)
            if hasattr(value, "cache_info") and _reads_state(inner, set()):
                self.refuse(f"{name} keeps results that depend on more than its arguments")
        self.owner_class(kind)
        space = getattr(value, "__dict__", None)
        if isinstance(space, dict):
            self.attributes_of(value, space, name)
        slots = [s for s in _slots(kind) if s in self.attributes or self.everything]
        for slot in slots:
            self.snapshot.add_other(functools.partial(_slot, value, slot), f"{name}.{slot}")
            self.value(getattr(value, slot, None), f"{name}.{slot}")
        if not isinstance(space, dict) and not slots and not _is_plain(kind):
            self.refuse(f"{name} is a {kind.__qualname__}, whose state cannot be guarded")

    def attributes_of(self, value: Any, space: dict, name: str) -> None:
        self.snapshot.add_holder(value, space)
        if self.everything:
            self.whole_dict(space, name)
            return
        names = {n for n in self.attributes if n in space or _is_data(value, n)}
        if type(value).__module__.partition(".")[0] != "rushlight":
            names |= self.asked  # may appear later
        self.some_of(space, names, name)

    def owner_class(self, kind: type) -> None:
        """Class attributes that code names, and the functions of the class."""
        for cls in kind.__mro__:
            if cls in self.classes or not _is_user_class(cls):
                continue
            self.classes.add(cls)
            space = cls.__dict__
            names = [n for n in space if n in self.attributes
                     or n.startswith("__") and isinstance(space[n], _MEMBERS)]  # fmt: skip
            self.snapshot.add_entries(space, sorted(names), cls.__qualname__)
            self.snapshot.add_absent(space, self.asked.difference(space), cls.__qualname__)
            for n in names:
                for part in _parts(space[n]):
                    self.value(self.ways.unwrap(part), f"{cls.__qualname__}.{n}")

    def array(self, value: np.ndarray, name: str) -> None:
        if value.nbytes > MAX_ARRAY_BYTES or value.dtype.hasobject:
            self.refuse(f"{name} is a numpy array of {value.nbytes} bytes")
        else:
            self.snapshot.add_other(functools.partial(_array_state, value), name)


def _is_harmless_import(root: str) -> bool:
    """Modules without a state that matters, and this package, also in PyTorch's place."""
    package = _MODULES["rushlight"]
    return root in PURE_MODULES or _MODULES.get(root) is package


_NEVER = object()
_MEMBERS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


def _is_user_class(cls: type) -> bool:
    module = _MODULES.get(cls.__module__)
    if cls.__module__ == "builtins":
        return False
    if module is None or getattr(module, "__file__", None) is None:
        return cls.__module__ in ("__main__", "__mp_main__") or module is None
    return kind_of_file(module.__file__) == "user"


def _is_plain(kind: type) -> bool:
    """No state at all, or state that cannot change."""
    root = kind.__module__.partition(".")[0]
    return root in _CONSTANT_MODULES or (_is_user_class(kind) and kind.__basicsize__ <= 16)


def _is_data(value: Any, name: str) -> bool:
    """A class attribute that an instance attribute could hide."""
    return hasattr(type(value), name) and not isinstance(
        getattr(type(value), name, None), (property, types.FunctionType)
    )


def _parts(member: Any) -> tuple:
    if isinstance(member, (staticmethod, classmethod)):
        return (member.__func__,)
    if isinstance(member, property):
        return tuple(f for f in (member.fget, member.fset, member.fdel) if f is not None)
    if isinstance(member, functools.cached_property):
        return (member.func,)
    return (member,)


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for cls in kind.__mro__:
        names = cls.__dict__.get("__slots__", ())
        found += [names] if isinstance(names, str) else list(names)
    return [n for n in found if n not in ("__dict__", "__weakref__")]


def _slot(value: Any, slot: str) -> Any:
    return getattr(value, slot, None)


def _reads_state(fn: Any, seen: set[int]) -> bool:
    """Does a function read more than its arguments, functions, classes, modules and constants?

    Constants are guarded by value: when one changes, the call runs as Python again.
    """
    fn = getattr(fn, "__wrapped__", fn)
    if not isinstance(fn, types.FunctionType) or id(fn) in seen:
        return False
    seen.add(id(fn))
    values = [fn.__globals__[n] for n in names_of(fn.__code__).globals if n in fn.__globals__]
    try:
        values += [cell.cell_contents for cell in fn.__closure__ or ()]
    except ValueError:
        return True
    plain = (*_FUNCTIONS, type, types.ModuleType, types.BuiltinFunctionType)
    return any(
        _reads_state(value, seen) if isinstance(value, plain) or hasattr(value, "__wrapped__")
        else not isinstance(value, SIMPLE)
        for value in values
    )  # fmt: skip


def _array_state(value: np.ndarray) -> bytes:
    return b"%r %r " % (value.shape, value.dtype.str) + value.tobytes()


def _ids(value: Any) -> frozenset:
    return frozenset(v if isinstance(v, SIMPLE) else id(v) for v in value)


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is _NEVER
    except ValueError:
        return True


_MODULES = sys.modules
