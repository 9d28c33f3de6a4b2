"""Functions, methods and in-place variants that follow from the records alone.

The `torch` field of a record lists its public names. PyTorch calls the first operand `input` (a
function) or `self` (a method) and the second one `other`; a few ops have names of their own.
Operators are bound here too: they are what scripts call most, so they go to `apply` directly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.ir.opdef import OpDef, all_ops
from rushlight.tensors.apply import apply
from rushlight.tensors.argument_names import DIMS, OPERANDS, known_by
from rushlight.tensors.call_plan import plan_of
from rushlight.tensors.functions_math import check_negatable, check_power, check_subtract
from rushlight.tensors.inplace import inplace
from rushlight.tensors.operands import NEVER, check_operands, number_rule
from rushlight.tensors.out import write_out
from rushlight.tensors.tensor import LEGACY, Tensor
from rushlight.tensors.tracked import Tracked

OWN_NAMES = {  # record -> {public name: record's name}, where it is not input/other
    "pow": {"exponent": "y"},
    "clamp": {},
    "matmul": {"other": "b"},
    "outer": {"vec2": "b"},
    "heaviside": {"values": "values"},
    "lerp": {"end": "end"},
    "flip": {"dims": "dims"},
}


def aliases(record: OpDef) -> dict[str, str]:
    """Public keyword -> the record's parameter."""
    own = [p.name for p in record.params]
    found = dict(OWN_NAMES.get(record.name, {}))
    if own and own[0] in ("x", "a"):
        found["input"] = own[0]
        found["self"] = own[0]
    if "y" in own and "exponent" not in found:
        found["other"] = "y"
    for theirs, ours in known_by({*own, *found}, {**DIMS, **OPERANDS}).items():
        found.setdefault(theirs, found.get(ours, ours))
    return found


def renamed(kwargs: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in kwargs.items()}


def make_function(record: OpDef, name: str) -> Callable:
    names = aliases(record)
    plan_of(record)
    rule = number_rule(name)

    def function(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        if kwargs:
            kwargs = renamed(kwargs, names)
        if args and args[0].__class__ is not Tensor and _check_first(name, args[0], record):
            if out is not None:
                kwargs["out"] = out
            return LEGACY.taken_over(function, args, kwargs)
        if rule and len(args) > 1 and not args[0].__class__ is args[1].__class__ is Tensor:
            check_operands(name, rule, args)
        result = apply(record, args, kwargs)
        return result if out is None else write_out(out, result)

    return _named(function, name, record.doc)


def _check_first(name: str, value: Any, record: OpDef) -> bool:
    """Is the first operand an object with a `__torch_function__`? TypeError if it is no operand."""
    if isinstance(value, Tensor) or (record.params and record.params[0].variadic):
        return False
    if isinstance(value, int | float | complex) and len(record.params) > 1:
        return False  # maximum(2, x) and the like: the other operand is checked by promotion
    if hasattr(type(value), "__torch_function__"):
        return True
    raise TypeError(
        f"{name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}"
    )


def make_method(record: OpDef, name: str) -> Callable:
    names = aliases(record)
    strict = number_rule(name) == NEVER

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if strict and args:
            check_operands(name, NEVER, (self, *args))
        return apply(record, (self, *args), renamed(kwargs, names) if kwargs else None)

    return _named(method, name, record.doc)


def make_inplace(record: OpDef, name: str) -> Callable:
    names = aliases(record)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return inplace(self, record, args, renamed(kwargs, names) if kwargs else None)

    return _named(method, name, record.doc)


def _named(function: Callable, name: str, doc: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def bind_records() -> dict[str, Callable]:
    """Put methods on Tensor; give the functions of `torch`."""
    public: dict[str, Callable] = {}
    for record in all_ops().values():
        for path in record.torch:
            space, _, name = path.rpartition(".")
            if space == "torch":
                public[name] = make_function(record, name)
            elif space == "Tensor":
                make = make_inplace if name.endswith("_") else make_method
                setattr(Tensor, name, make(record, name))
    return public


# Operators ---------------------------------------------------------------------------------

ACCEPTED = (Tensor, int, float, complex, Tracked)


def _checked(record: OpDef, check: Callable) -> tuple[Callable, Callable, Callable]:
    """The operators of a record, with a check of the operands before."""
    plain = _binary(record)

    def forward(self: Tensor, other: Any) -> Any:
        check(self, other)
        return plain[0](self, other)

    def backward(self: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor):
            check(other, self)
        elif record is ops.sub:
            check(self, other)
        return plain[1](self, other)

    def in_place(self: Tensor, other: Any) -> Any:
        check(self, other)
        return plain[2](self, other)

    return forward, backward, in_place


def _binary(record: OpDef) -> tuple[Callable, Callable, Callable]:
    def forward(self: Tensor, other: Any) -> Any:
        if not isinstance(other, ACCEPTED) and not _is_number(other):
            return NotImplemented
        return apply(record, (self, other))

    def backward(self: Tensor, other: Any) -> Any:
        if not isinstance(self, Tensor):
            raise TypeError(
                f"descriptor of '{record.name}' requires a Tensor, not {type(self).__name__}"
            )
        if not isinstance(other, ACCEPTED) and not _is_number(other):
            return NotImplemented
        return apply(record, (other, self))

    def in_place(self: Tensor, other: Any) -> Any:
        if not isinstance(other, ACCEPTED) and not _is_number(other):
            return NotImplemented
        return inplace(self, record, (other,))

    return forward, backward, in_place


def _is_number(value: Any) -> bool:
    """numpy numbers and others that know their item; never sequences or strings."""
    return hasattr(value, "dtype") and getattr(value, "ndim", None) == 0


ARITHMETIC = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "shift_left", "rshift": "shift_right", "matmul": "matmul",
}  # fmt: skip
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def bind_operators() -> None:
    records = all_ops()
    for operator, name in ARITHMETIC.items():
        if name not in records:
            continue
        check = {"sub": check_subtract, "pow": check_power}.get(name)
        found = _binary(records[name]) if check is None else _checked(records[name], check)
        forward, backward, in_place = found
        setattr(Tensor, f"__{operator}__", forward)
        setattr(Tensor, f"__r{operator}__", backward)
        setattr(Tensor, f"__i{operator}__", in_place)
    for name in COMPARE:
        setattr(Tensor, f"__{name}__", _binary(records[name])[0])
    Tensor.__eq__ = _equality(records["eq"])  # type: ignore[method-assign]
    Tensor.__ne__ = _equality(records["ne"])  # type: ignore[method-assign]
    Tensor.__neg__ = negate  # type: ignore[attr-defined]
    Tensor.__abs__ = functools.partialmethod(_unary, ops.abs_)  # type: ignore[attr-defined]
    Tensor.__invert__ = invert  # type: ignore[attr-defined]
    Tensor.__pos__ = lambda self: self  # type: ignore[attr-defined]
    Tensor.__hash__ = lambda self: id(self)  # type: ignore[method-assign]


def negate(self: Tensor) -> Tensor:
    check_negatable(self)
    return apply(ops.neg, (self,))


def invert(self: Tensor) -> Tensor:
    if not self._dtype.is_integral:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return apply(ops.bitwise_not, (self,))


def _unary(self: Tensor, record: OpDef) -> Tensor:
    return apply(record, (self,))


def _equality(record: OpDef) -> Callable:
    def compare(self: Tensor, other: Any) -> Any:
        if isinstance(other, ACCEPTED) or _is_number(other):
            return apply(record, (self, other))
        return NotImplemented

    return compare
