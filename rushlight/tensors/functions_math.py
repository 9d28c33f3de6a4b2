"""Elementwise functions whose public form is more than their record: alpha, rounding_mode, bounds,
Python numbers in either place, and the other names that PyTorch gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import (
    DType,
    bool_,
    complex128,
    dtype_argument,
    float64,
    int64,
    promote_types,
    uint8,
)
from rushlight.ir.opdef import OpDef
from rushlight.tensors.apply import apply, cast
from rushlight.tensors.forms import in_place_form, linked
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_select import nonzero_indices
from rushlight.tensors.inplace import check_inplace, store
from rushlight.tensors.numbers import (
    CATEGORY,
    INEXACT,
    Defaults,
    check_number,
    number_dtype,
    number_of,
    result_type,
)
from rushlight.tensors.operands import need_tensor
from rushlight.tensors.out import finish
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name

ACCEPTED = (Tensor, int, float, complex)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else tensor_of(value)


def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    if not isinstance(input, ACCEPTED):
        raise TypeError(
            f"add(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    input = or_tensor(input, other)
    return finish(_with_alpha(ops.add, input, other, alpha), out)


def _with_alpha(record: OpDef, input: Any, other: Any, alpha: Any) -> Tensor:
    """input + alpha * other, or their difference: rounded once, in the dtype of the two."""
    if alpha.__class__ is int and alpha == 1:
        return apply(record, (input, other))
    dtype = result_type([input, other])
    _check_alpha(alpha, dtype)
    if alpha == 1:
        return apply(record, (input, other))
    wide = dtype.compute
    a, b = (cast(_tensor(x), wide) for x in (input, other))
    alpha = bool(alpha) if dtype is bool_ else alpha
    return cast(apply(record, (a, apply(ops.mul, (b, alpha)))), dtype)


def _check_alpha(alpha: Any, dtype: DType) -> None:
    if alpha.__class__ is bool and dtype is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if dtype.is_integral and isinstance(alpha, float | complex):
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if not dtype.is_complex and isinstance(alpha, complex):
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if dtype.is_integral:
        check_number(alpha, dtype)


def check_subtract(a: Any, b: Any) -> None:
    bools = [v._dtype is bool_ if isinstance(v, Tensor) else v.__class__ is bool for v in (a, b)]
    if bools[0] and bools[1]:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if bools[0] or bools[1]:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def check_power(base: Any, exponent: Any) -> None:
    if exponent.__class__ is int and base._dtype.is_integral:
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        check_number(exponent, base._dtype)


def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    check_subtract(input, other)
    return finish(_with_alpha(ops.sub, or_tensor(input, other), other, alpha), out)


def or_tensor(value: Any, other: Any) -> Any:
    """At least one operand must be a Tensor."""
    return value if isinstance(value, Tensor) or isinstance(other, Tensor) else tensor_of(value)


def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    return finish(apply(ops.mul, (or_tensor(input, other), other)), out)


def div(
    input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    input = or_tensor(input, other)
    if rounding_mode is None:
        result = apply(ops.div, (input, other))
    elif rounding_mode == "floor":
        result = _flat(apply(ops.floor_divide, (input, other)), input, other)
    elif rounding_mode == "trunc":
        result = _flat(_trunc_divide(input, other), input, other)
    else:
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return finish(result, out)


def _flat(result: Tensor, *sources: Any) -> Tensor:
    """A step: its gradient is 0 to each source."""
    if result._dtype.kind == "float" and not result.requires_grad:
        for source in sources:
            result = linked(result, source) if isinstance(source, Tensor) else result
    return result


def _trunc_divide(input: Any, other: Any) -> Tensor:
    dtype = result_type([input, other])
    if dtype.kind == "float":
        return apply(ops.trunc, (apply(ops.div, (input, other)),))
    rest = apply(ops.fmod, (input, other))
    return apply(ops.floor_divide, (apply(ops.sub, (input, rest)), other))


def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square; of truth values a whole number."""
    x = input if input._dtype is not bool_ else input.to(int64)
    return finish(apply(ops.square, (x,)), out)


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    check_subtract(input, other)
    return _with_alpha(ops.sub, other, input, alpha)


# Closer than exp(exponent * log(x)), which all other powers of complex numbers are.
COMPLEX_POWERS: dict[float, Callable[[Tensor], Tensor]] = {
    -2: lambda x: apply(ops.reciprocal, (apply(ops.mul, (x, x)),)),
    -1: lambda x: apply(ops.reciprocal, (x,)),
    -0.5: lambda x: apply(ops.rsqrt, (x,)),
    0.5: lambda x: apply(ops.sqrt, (x,)),
    2: lambda x: apply(ops.mul, (x, x)),
    3: lambda x: apply(ops.mul, (apply(ops.mul, (x, x)), x)),
}


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    if isinstance(input, Tensor):
        check_power(input, exponent)
        if input._dtype.kind == "complex" and exponent.__class__ in (int, float):
            short = COMPLEX_POWERS.get(exponent)
            if short is not None:
                return finish(short(input), out)
    return finish(apply(ops.pow_, (or_tensor(input, exponent), exponent)), out)


def float_power(input: Any, exponent: Any) -> Tensor:
    """pow in double precision."""
    dtypes = [v._dtype if isinstance(v, Tensor) else number_dtype(v) for v in (input, exponent)]
    wide = complex128 if any(dtype.is_complex for dtype in dtypes) else float64
    numbers = complex if wide is complex128 else float
    base, power = (
        apply(ops.cast, (v, wide)) if isinstance(v, Tensor) else numbers(v)
        for v in (input, exponent)
    )
    return pow(base if isinstance(base, Tensor) else tensor_of(base, wide), power)


def _check_fits(*operands: Any) -> None:
    """Whole numbers beside whole tensors must fit them."""
    dtype = result_type(operands)
    if dtype.is_integral:
        for value in operands:
            if not isinstance(value, Tensor):
                check_number(value, dtype)


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    need_tensor("clamp", "input", 1, input)
    bounds = [v for v in (min, max) if v is not None and not isinstance(v, Tensor)]
    dtype = result_type([input, *[v for v in (min, max) if v is not None]])
    for value in bounds:
        check_number(value, dtype)
    return finish(apply(ops.clamp, (input, min, max)), out)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    check_inplace(self)
    return store(self, clamp(self, min, max))


def clamp_min(input: Tensor, min: Any) -> Tensor:
    return clamp(input, min, None)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    return clamp(input, None, max)


def where(condition: Tensor, *rest: Any, out: Tensor | None = None, **named: Any) -> Any:
    """where(condition, input, other), or the indices of what is true."""
    if not rest and not named:
        return nonzero_indices(condition)
    if condition._dtype is uint8:
        condition = condition.to(bool_)
    values = list(rest) + [named[name] for name in ("input", "self", "other") if name in named]
    x, y = values
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        _check_fits(x, y)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        x = new_tensor(number_of(x, result_type([x, y]), ()))
    return finish(apply(ops.where, (condition, x, y)), out)


def tensor_where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    return where(condition, self, other)


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    if decimals == 0:
        return finish(apply(ops.round_, (input,)), out)
    scale = 10.0**decimals
    return finish(
        apply(ops.div, (apply(ops.round_, (apply(ops.mul, (input, scale)),)), scale)), out
    )


def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    if input._dtype.kind not in INEXACT:
        return finish(input.clone(), out)
    top = _largest(input._dtype.to_real())
    if input._dtype.kind == "complex":
        ends = (0.0 if nan is None else nan, top if posinf is None else posinf)
        low = -top if neginf is None else neginf
        return finish(apply(ops.nan_to_num, (input, *ends, low)), out)
    result = apply(ops.where, (apply(ops.isnan, (input,)), 0.0 if nan is None else nan, input))
    high = top if posinf is None else posinf
    result = apply(ops.where, (apply(ops.eq, (result, float("inf"))), high, result))
    low = -top if neginf is None else neginf
    return finish(apply(ops.where, (apply(ops.eq, (result, float("-inf"))), low, result)), out)


def check_negatable(input: Tensor) -> None:
    if input._dtype is bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )


def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-input."""
    check_negatable(input)
    return finish(apply(ops.neg, (input,)), out)


def _largest(dtype: DType) -> float:
    return {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308,
            "float16": 65504.0, "bfloat16": 3.3895313892515355e38}[dtype.name]  # fmt: skip


def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    _need_tensors("lerp", input=input, end=end)
    for name, value in (("end", end), ("weight", weight)):
        if isinstance(value, Tensor) and value._dtype is not input._dtype:
            raise RuntimeError(
                f"expected dtype {cpp_name(input._dtype)} for `{name}` but got dtype "
                f"{cpp_name(value._dtype)}"
            )
    return finish(apply(ops.lerp, (input, end, weight)), out)


def _need_tensors(function: str, **values: Any) -> None:
    for position, (name, value) in enumerate(values.items(), 1):
        need_tensor(function, name, position, value)


def _factor(value: Any, *tensors: Tensor) -> Any:
    """The factor of addcmul and addcdiv, as a number of the result's dtype."""
    dtype = result_type(tensors)
    if not isinstance(value, Tensor):
        check_number(value, dtype)
        return int(value) if dtype.is_integral else value
    return value


def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    _need_tensors("addcmul", input=input, tensor1=tensor1, tensor2=tensor2)
    value = _factor(value, input, tensor1, tensor2)
    return finish(apply(ops.addcmul, (input, tensor1, tensor2, value)), out)


def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    _need_tensors("addcdiv", input=input, tensor1=tensor1, tensor2=tensor2)
    if tensor1._dtype.is_integral and tensor2._dtype.is_integral:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / "
            "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter "
            "implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )
    value = _factor(value, input, tensor1, tensor2)
    return finish(apply(ops.addcdiv, (input, tensor1, tensor2, value)), out)


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    x = input if input._dtype.kind == "float" else input.to(Defaults.dtype)
    x = x if eps is None else clamp(x, eps, 1 - eps)
    return apply(ops.log, (x / (1 - x),))


def cast_result_type(*operands: Any) -> DType:
    """torch.result_type."""
    for operand in operands:
        if isinstance(operand, type | DType):
            kinds = ", ".join(type(value).__name__ for value in operands)
            raise TypeError(
                f"result_type() received an invalid combination of arguments - got ({kinds})"
            )
    return result_type(operands)


def promote_dtypes(type1: DType, type2: DType) -> DType:
    """torch.promote_types: the smallest dtype that both convert to."""
    a = dtype_argument(type1, "promote_types", "type1", 1)
    return promote_types(a, dtype_argument(type2, "promote_types", "type2", 2))


def can_cast(from_: DType, to: DType) -> bool:
    """Does a value of the one dtype have a meaning in the other?"""
    from_ = dtype_argument(from_, "can_cast", "from_", 1)
    to = dtype_argument(to, "can_cast", "to", 2)
    return CATEGORY[from_.kind] <= CATEGORY[to.kind]


ALIASES = {
    "absolute": "abs", "negative": "neg", "subtract": "sub", "multiply": "mul", "divide": "div",
    "true_divide": "div", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2",
    "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "clip": "clamp", "fix": "trunc",
    "special_expit": "sigmoid",
}  # fmt: skip
FUNCTIONS: dict[str, Callable] = by_name(
    add, sub, mul, div, square, rsub, pow, float_power, clamp, clamp_min, clamp_max, where, round,
    nan_to_num, lerp, addcmul, addcdiv, logit, neg,
)  # fmt: skip
METHODS: dict[str, Callable] = {**FUNCTIONS, "where": tensor_where, "clamp_": clamp_}


for (
    _name
) in """add sub mul div square pow neg clamp_min clamp_max round nan_to_num lerp addcmul addcdiv
logit float_power""".split():
    METHODS[f"{_name}_"] = in_place_form(FUNCTIONS[_name])
