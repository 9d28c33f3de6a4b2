"""Calls of public functions that a class or a mode takes over.

A plain program pays nothing: the functions are as they are until the first class or mode that can
take over is made. Then `turn_on` puts an `Overridable` in the place of each public function, and
wraps the methods of Tensor. An `Overridable` equals the function that it stands for, so tables of
functions work whenever they were made; a function that was imported by name before is called
directly.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import rushlight as torch
from rushlight.overrides.state import STATE, Setting
from rushlight.tensors.namespace import TABLE

# Modules whose functions can be taken over, besides torch itself.
SPACES = ("nn.functional", "linalg", "special", "fft")
# Functions of torch that settings are made of, not tensors.
LEFT = frozenset(
    """is_tensor is_storage set_default_device get_default_device set_default_dtype
    get_default_dtype set_default_tensor_type set_printoptions set_rng_state get_rng_state
    manual_seed initial_seed seed is_grad_enabled set_grad_enabled is_inference_mode_enabled
    promote_types can_cast flush use_deterministic_algorithms get_num_threads set_num_threads
    are_deterministic_algorithms_enabled set_float32_matmul_precision
    get_float32_matmul_precision""".split()
)
# Methods through which the machinery reaches a tensor.
LEFT_METHODS = frozenset(
    """__new__ __init__ __init_subclass__ __torch_function__ _disabled_torch_function
    __rushlight_apply__ __hash__
    __class__ __dir__ __getattribute__ __setattr__ __delattr__ __sizeof__ __subclasshook__
    as_subclass""".split()
)
# Operators that classes see as the method of the same meaning.
OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__neg__": "neg", "__pos__": "positive", "__matmul__": "matmul",
    "__abs__": "abs", "__pow__": "pow", "__mod__": "remainder", "__gt__": "gt", "__lt__": "lt",
    "__ge__": "ge", "__le__": "le", "__ne__": "ne", "__iadd__": "add_", "__isub__": "sub_",
    "__imul__": "mul_", "__itruediv__": "div_",
}  # fmt: skip
PROPERTIES = ("T", "mT", "H", "mH", "real", "imag", "data", "grad")
NOT_TAKEN = (int, float, complex, str, bytes, bool, type(None), slice, type(Ellipsis))


def takes_over(value: Any) -> bool:
    """Has this value's class a `__torch_function__` of its own, or is it a class of tensors?"""
    kind = type(value)
    if kind is torch.Tensor or kind in NOT_TAKEN:
        return False
    answer = getattr(kind, "__torch_function__", None)
    return answer is not None and answer is not torch.Tensor._disabled_torch_function


def candidates(values: Iterable[Any]) -> Iterator[Any]:
    """The arguments, and the elements of lists and tuples among them."""
    for value in values:
        if type(value) in (list, tuple):
            yield from value
        else:
            yield value


def in_order(values: Iterable[Any]) -> list[Any]:
    """One argument of each class that takes over, subclasses before their bases."""
    kinds: list[type] = []
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not takes_over(value) or kind in kinds:
            continue
        at = next((i for i, other in enumerate(kinds) if issubclass(kind, other)), len(kinds))
        kinds.insert(at, kind)
        found.insert(at, value)
    return found


def call(public: Any, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """`function(*args)`, or what a mode or a class answers for `public`."""
    if not STATE.modes and not STATE.subclasses:
        return function(*args, **kwargs)
    taking = in_order(candidates((*args, *kwargs.values())))
    if STATE.modes:
        *outer, mode = STATE.modes
        types = tuple(type(value) for value in taking)
        with Setting(modes=tuple(outer)):
            result = mode.__torch_function__(public, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not taking or not STATE.subclasses:
        return function(*args, **kwargs)
    return ask(public, taking, args, kwargs)


def ask(public: Any, taking: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The answer of the first class that has one."""
    types = tuple(type(value) for value in taking)
    for value in taking:
        result = type(value).__torch_function__(public, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{getattr(public, '__module__', 'torch')}.{getattr(public, '__name__', public)}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(types)}"
    )


def public_function(module: str, name: str) -> Any:
    """The function of this name, as pickles find it."""
    return getattr(importlib.import_module(module), name)


class Overridable:
    """A public function that can be taken over. `place`: its module and its name there."""

    def __init__(self, function: Callable[..., Any], *place: str) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__, self._place = function, place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and self.__name__ == "einsum" and isinstance(args[1], list | tuple):
            args = (args[0], *args[1])  # classes see the operands one by one, as PyTorch's
        return call(self, self.__wrapped__, args, kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Overridable):
            return self.__wrapped__ is other.__wrapped__
        return self.__wrapped__ is other

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    @property
    def public_name(self) -> str:
        """What programs call it by: torch.nn.functional.softmax."""
        module, name = self._place
        return f"torch{module.removeprefix('rushlight')}.{name}"

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> Any:
        return (public_function, self._place)

    def __copy__(self) -> Overridable:
        return self

    def __deepcopy__(self, memo: Any) -> Overridable:
        return self


def taken_over(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The first call in this process with an object that is no tensor and takes over."""
    turn_on()
    name = function.__name__
    return call(Overridable(function, "rushlight", name), function, args, kwargs)


def method_of(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method `name` of Tensor, which can be taken over."""
    shown = OPERATORS.get(name)

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        public = method if shown is None else getattr(torch.Tensor, shown)
        return call(public, function, args, kwargs)

    method.__name__ = name
    return method


def property_of(found: property) -> property:
    """A property of Tensor that can be taken over: as `Tensor.T.__get__`."""
    made: property

    def read(self: Any) -> Any:
        return call(made.__get__, found.__get__, (self,), {})

    made = property(read, found.fset, found.fdel, found.__doc__)
    return made


@functools.cache
def turn_on() -> None:
    """From now on classes and modes are asked."""
    for name, function in list(TABLE.items()):
        if isinstance(function, FunctionType) and name not in LEFT:
            TABLE[name] = Overridable(function, "rushlight", name)
            if name in vars(torch):
                setattr(torch, name, TABLE[name])
    for path in SPACES:
        space = importlib.import_module(f"rushlight.{path}")
        for name in space.__all__:
            function = getattr(space, name)
            if isinstance(function, FunctionType):
                setattr(space, name, Overridable(function, space.__name__, name))
    for name, found in list(vars(torch.Tensor).items()):
        if isinstance(found, FunctionType | functools.partialmethod):
            if name not in LEFT_METHODS and (name[0] != "_" or name[:2] == "__"):
                plain = getattr(torch.Tensor, name)
                setattr(torch.Tensor, name, method_of(plain, name))
    for name in PROPERTIES:
        owner = next(kind for kind in torch.Tensor.__mro__ if name in vars(kind))
        setattr(torch.Tensor, name, property_of(vars(owner)[name]))
