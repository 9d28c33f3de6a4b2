"""Making operators: `custom_op`, the `register_*` functions, and the class Library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight.library.operator import CPU_KEYS, IMPLICIT, Operator
from rushlight.library.schema import infer_schema, parse_schema
from rushlight.library.spaces import (
    Aten,
    add_operator,
    find_space,
    keep_kernel,
    remove_space_operator,
)

KEY_OF_KIND = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "meta": "Meta",
               "default": CPU_KEYS[1]}  # fmt: skip


class CustomOpDef(Operator):
    """An operator made by `custom_op`."""

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None, schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make an operator `space::name` of a function with type hints; a decorator.

    mutates_args: names of the arguments that the function changes, or "unknown".

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.ops.docs.twice(torch.ones(2))
    tensor([2., 2.])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        _check_qualname(name)
        text = schema or infer_schema(function, mutates_args=mutates_args)
        operator = CustomOpDef(parse_schema(f"{name}{text}"), tags or ())
        operator.register_kernel(device_types, function)
        operator.__doc__ = function.__doc__
        remove_space_operator(operator)
        add_operator(operator)
        return operator

    return make if fn is None else make(fn)


def _check_qualname(name: str) -> None:
    if name.count("::") != 1:
        raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name!r}")


def triton_op(
    name: str, fn: Any = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Any:
    """As `custom_op`: the function is Python either way."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """The kernel itself: nothing traces it."""
    return triton_kernel


def find_operator(op: Any) -> Operator:
    """The operator of a name "space::name", or of what `custom_op` gave."""
    if isinstance(op, Operator):
        return op
    space, _, name = str(op).partition("::")
    name, _, overload = name.partition(".")
    found = getattr(find_space(space), name)
    return getattr(found, overload) if overload and overload != "default" else found


def when_there(op: Any, key: str, function: Any) -> None:
    """Give an operator a kernel now, or when it is declared."""
    try:
        find_operator(op).add_kernel(key, function)
    except AttributeError:
        keep_kernel(str(op), key, function)


def _registering(register: Callable[[Any], Any], func: Any) -> Any:
    """Register now, or give the decorator that does."""

    def decorate(function: Any) -> Any:
        register(function)
        return function

    return decorate if func is None else decorate(func)


def register_fake(
    op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:  # fmt: skip
    """What an operator gives for tensors without data. Usable as a decorator.

    An operator that is not there (its library was not loaded) may be there later.
    """
    return _registering(lambda function: when_there(op, "Meta", function), func)


impl_abstract = register_fake


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """The function of an operator for some devices. Usable as a decorator."""
    return _registering(lambda f: find_operator(op).register_kernel(device_types, f), func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """The gradient of an operator."""
    find_operator(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """How an operator works on a batch of calls. Usable as a decorator."""
    return _registering(find_operator(op).register_vmap, func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """The dtype of an operator's inputs inside `autocast`."""
    find_operator(op).register_autocast(device_type, cast_inputs)


def define(qualname: str, schema: Any, *, lib: Any = None, tags: Any = ()) -> Any:
    """Declare an operator `space::name` with a schema; `impl` gives it its functions."""
    _check_qualname(qualname)
    operator = Operator(parse_schema(f"{qualname}{schema}"), tags)
    remove_space_operator(operator)
    add_operator(operator)


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The function of a declared operator for devices ("cpu", "default"). A decorator too."""
    kinds = [types] if isinstance(types, str) else types

    def register(function: Any) -> None:
        for kind in kinds:
            find_operator(qualname).add_kernel(KEY_OF_KIND.get(kind.lower(), kind), function)

    return _registering(register, func)


def fallthrough_kernel(*_: Any, **__: Any) -> None:
    """Stands for no function at all; it cannot be called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of one namespace: kind "DEF" (new), "FRAGMENT" (more), "IMPL" (for existing)."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[Operator] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare `name(arguments) -> results` here; gives the name."""
        if self.kind == "IMPL":
            raise RuntimeError("define: a Library of kind IMPL cannot declare operators")
        parsed = parse_schema(f"{self.ns}::{schema}")
        operator = Operator(parsed, tags)
        add_operator(operator)
        self._made.append(operator)
        return operator._opname + (f".{parsed.overload}" if parsed.overload else "")

    def impl(
        self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:  # fmt: skip
        """The function of one of these operators for a dispatch key ("CPU", "Meta", ...)."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = dispatch_key or self.dispatch_key or IMPLICIT
        target = op_name if isinstance(op_name, Operator) else f"{self.ns}::{op_name}"
        operator = find_operator(target)
        if isinstance(operator, Aten):
            raise NotImplementedError(
                f"impl: {operator.name()} is one of PyTorch's own operators; its function cannot "
                "be replaced"
            )
        operator.add_kernel(key, fn)

    def _register_fake(self, op_name: Any, fn: Any, **_: Any) -> None:
        register_fake(f"{self.ns}::{op_name}", fn)

    def _destroy(self) -> None:
        """Take away what was declared here."""
        for operator in self._made:
            remove_space_operator(operator)
        self._made.clear()
