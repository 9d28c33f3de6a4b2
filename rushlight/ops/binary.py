"""Elementwise primitives of two operands: arithmetic, comparison, logic and bits.

Shapes broadcast. Dtypes agree already (the public function promotes); Python numbers and number
leaves take the other operand's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import float32, int32, int64
from rushlight.ir import scalar as s
from rushlight.ir.opdef import Arg, NotDifferentiable, OpDef, find_op, op
from rushlight.ops import complex_math, samples
from rushlight.ops import complex_pairs as pairs
from rushlight.ops import reference as ref
from rushlight.ops.build import conj_of, real_of
from rushlight.ops.meta import Meta
from rushlight.ops.rules import (
    bool_dtype,
    common_dtype,
    elementwise_shape,
    float_dtype,
    inexact_dtype,
    integral_dtype,
    number_dtype,
    whole_dtype,
)
from rushlight.ops.select import where
from rushlight.ops.unary import STEP, floor, log, neg, reciprocal, round_, torch_names, trunc


def _binary(
    name: str, doc: str, scalar: Any, reference: Callable, grad: Any, **fields: Any
) -> OpDef:
    fields.setdefault("dtype", common_dtype)
    fields.setdefault("torch", torch_names(name))
    fields.setdefault("samples", samples.binary())
    return op(
        name=name, doc=doc, inputs=(Arg("x"), Arg("y")), shape=elementwise_shape, scalar=scalar,
        reference=reference, grad=grad, **fields,
    )  # fmt: skip


def _is_bool(x: s.E) -> bool:
    return x.dtype.kind == "bool"


def scalar_add(x: s.E, y: s.E) -> s.E:
    return s.bit_or(x, y) if _is_bool(x) else s.add(x, y)


def scalar_mul(x: s.E, y: s.E) -> s.E:
    return s.bit_and(x, y) if _is_bool(x) else s.mul(x, y)


def scalar_maximum(x: s.E, y: s.E) -> s.E:
    return s.bit_or(x, y) if _is_bool(x) else s.maximum(x, y)


def scalar_minimum(x: s.E, y: s.E) -> s.E:
    return s.bit_and(x, y) if _is_bool(x) else s.minimum(x, y)


def _float_fmod(x: s.E, y: s.E) -> s.E:
    """x - y * trunc(x / y), exact for quotients below 2**72 (float32) or 2**106 (float64).

    Each round takes off a quotient rounded to the mantissa, without error (see fma). The last
    quotient may be one too large: then the sign is wrong and one |y| goes back.
    """
    rest = x
    for _ in range(3 if x.dtype is float32 else 2):
        rest = s.fma(s.neg(s.trunc(s.div(rest, y))), y, rest)
    zero = s.const(0, x.dtype)
    size = s.abs_(y)
    too_far = s.select(s.lt(x, zero), s.gt(rest, zero), s.lt(rest, zero))
    fixed = s.select(too_far, s.add(rest, scalar_copysign(size, x)), rest)
    infinite = s.const(float("inf"), x.dtype)
    keeps = s.bit_and(s.eq(size, infinite), s.lt(s.abs_(x), infinite))
    return s.select(keeps, x, scalar_copysign(s.abs_(fixed), x))


def scalar_fmod(x: s.E, y: s.E) -> s.E:
    return _float_fmod(x, y) if x.dtype.is_floating_point else s.irem(x, y)


def _differ_in_sign(x: s.E, y: s.E) -> s.E:
    zero = s.const(0, x.dtype)
    return s.bit_xor(s.lt(x, zero), s.lt(y, zero))


def scalar_remainder(x: s.E, y: s.E) -> s.E:
    """The sign is the divisor's (Python)."""
    rest = scalar_fmod(x, y)
    if x.dtype.kind == "uint":
        return rest
    moved = s.bit_and(s.ne(rest, s.const(0, x.dtype)), _differ_in_sign(rest, y))
    return s.select(moved, s.add(rest, y), rest)


def scalar_floor_divide(x: s.E, y: s.E) -> s.E:
    """Toward minus infinity; floats by way of the exact remainder, as Python."""
    if x.dtype.is_floating_point:
        rest = _float_fmod(x, y)
        zero = s.const(0, x.dtype)
        quotient = s.div(s.sub(x, rest), y)
        moved = s.bit_and(s.ne(rest, zero), _differ_in_sign(rest, y))
        quotient = s.select(moved, s.sub(quotient, s.const(1, x.dtype)), quotient)
        whole = s.floor(quotient)
        far = s.gt(s.sub(quotient, whole), s.const(0.5, x.dtype))
        whole = s.select(far, s.add(whole, s.const(1, x.dtype)), whole)
        plain = s.div(x, y)
        whole = s.select(s.ne(quotient, zero), whole, scalar_copysign(zero, plain))
        return s.select(s.eq(y, zero), plain, whole)
    quotient = s.idiv(x, y)
    if x.dtype.kind == "uint":
        return quotient
    rest = s.sub(x, s.mul(quotient, y))
    moved = s.bit_and(s.ne(rest, s.const(0, x.dtype)), _differ_in_sign(rest, y))
    return s.select(moved, s.sub(quotient, s.const(1, x.dtype)), quotient)


def scalar_pow(x: s.E, y: s.E) -> s.E:
    """Integers: squaring over the exponent's low 32 bits; a negative exponent gives 1/x cut."""
    if x.dtype.is_floating_point:
        return s.pow_(x, y)
    one, zero = s.const(1, x.dtype), s.const(0, x.dtype)
    result, base = one, x
    for bit in range(min(8 * x.dtype.itemsize - (x.dtype.kind == "int"), 32)):
        odd = s.ne(s.bit_and(s.shr(y, s.const(bit, y.dtype)), one), zero)
        result = s.select(odd, s.mul(result, base), result)
        base = s.mul(base, base)
    if x.dtype.kind == "uint":
        return result
    minus = s.const(-1, x.dtype)
    flip = s.select(s.eq(s.bit_and(y, one), zero), one, minus)
    negative = s.select(s.eq(x, one), one, s.select(s.eq(x, minus), flip, zero))
    return s.select(s.lt(y, zero), negative, result)


def scalar_copysign(x: s.E, y: s.E) -> s.E:
    whole, top = (int32, -(2**31)) if x.dtype is float32 else (int64, -(2**63))
    sign_bit, rest = s.const(top, whole), s.const(-top - 1, whole)
    size = s.bit_and(s.bitcast(x, whole), rest)
    return s.bitcast(s.bit_or(size, s.bit_and(s.bitcast(y, whole), sign_bit)), x.dtype)


def scalar_nextafter(x: s.E, y: s.E) -> s.E:
    """One step of the bits as a whole number: away from 0 when y is further out."""
    whole, top = (int32, -(2**31)) if x.dtype is float32 else (int64, -(2**63))
    bits, zero = s.bitcast(x, whole), s.const(0, x.dtype)
    outward = _same(s.lt(x, y), s.gt(x, zero))
    moved = s.add(bits, s.select(outward, s.const(1, whole), s.const(-1, whole)))
    tiny = s.bit_or(s.bit_and(s.bitcast(y, whole), s.const(top, whole)), s.const(1, whole))
    moved = s.bitcast(s.select(s.eq(x, zero), tiny, moved), x.dtype)
    wrong = s.bit_or(s.is_nan(x), s.is_nan(y))
    return s.select(wrong, s.add(x, y), s.select(s.eq(x, y), y, moved))


def _same(x: s.E, y: s.E) -> s.E:
    return s.bit_not(s.bit_xor(x, y))


def _compare(name: str) -> Callable[[s.E, s.E], s.E]:
    """Comparison; on bool by logic, with False < True."""
    build = getattr(s, name)
    logic = {
        "eq": lambda x, y: s.bit_not(s.bit_xor(x, y)),
        "ne": s.bit_xor,
        "lt": lambda x, y: s.bit_and(s.bit_not(x), y),
        "gt": lambda x, y: s.bit_and(x, s.bit_not(y)),
        "le": lambda x, y: s.bit_or(s.bit_not(x), y),
        "ge": lambda x, y: s.bit_or(x, s.bit_not(y)),
    }[name]
    return lambda x, y: logic(x, y) if _is_bool(x) else build(x, y)


def _truth(x: s.E) -> s.E:
    return x if _is_bool(x) else s.ne(x, s.const(0, x.dtype))


def _logic(build: Callable[[s.E, s.E], s.E]) -> Callable[[s.E, s.E], s.E]:
    return lambda x, y: build(_truth(x), _truth(y))


def _shift(left: bool) -> Callable[[s.E, s.E], s.E]:
    """Too far (or negative) a shift gives 0, or the sign for an arithmetic right shift."""

    def build(x: s.E, y: s.E) -> s.E:
        bits = 8 * x.dtype.itemsize
        inside = s.bit_and(s.ge(y, s.const(0, y.dtype)), s.lt(y, s.const(bits, y.dtype)))
        if left:
            return s.select(inside, s.shl(x, y), s.const(0, x.dtype))
        return s.shr(x, s.select(inside, y, s.const(bits - 1, y.dtype)))

    return build


def _shift_reference(left: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def apply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        bits = 8 * x.dtype.itemsize
        inside = (y >= 0) & (y < bits)
        if left:
            return np.where(inside, np.left_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype)
        return np.right_shift(x, np.where(inside, y, bits - 1).astype(y.dtype))

    return apply


def mul_grad(g: Any, x: Any, y: Any, meta: Meta) -> tuple:
    return (
        g * conj_of(y) if meta.needs("x") else None,
        g * conj_of(x) if meta.needs("y") else None,
    )


def div_grad(g: Any, x: Any, y: Any, meta: Meta) -> tuple:
    by_x = g / conj_of(y)
    return (by_x, -by_x * conj_of(x / y) if meta.needs("y") else None)


def floor_quotient(x: Any, y: Any) -> Any:
    """floor_divide(x, y) by steps whose derivatives are zero and may be asked for."""
    rest = fmod(x, y)
    whole = round_((x - rest) / y)
    less = logical_and(ne(rest, 0.0), ne(lt(y, 0.0), lt(rest, 0.0)))
    return where(eq(y, 0.0), floor(x / y), where(less, whole - 1.0, whole))


def extreme_grad(worse: str) -> Callable[..., tuple]:
    """All of g unless worse, half where equal (PyTorch's maximum and minimum)."""

    def grad(g: Any, x: Any, y: Any) -> tuple:
        share = where(eq(x, y), g * 0.5, g)
        return (
            where(find_op(worse)(x, y), 0.0, share),
            where(find_op(worse)(y, x), 0.0, share),
        )

    return grad


def atan2_grad(g: Any, x: Any, y: Any) -> tuple:
    square = x * x + y * y
    share = where(eq(square, 0.0), 0.0, reciprocal(square))
    return g * y * share, -g * x * share


def pow_grad(g: Any, x: Any, y: Any, out: Any, meta: Meta) -> tuple:
    by_x = by_y = None
    if meta.needs("x"):
        by_x = where(eq(y, 0.0), 0.0, g * conj_of(y * pow_(x, y - 1.0)))
    if meta.needs("y"):
        dead = logical_and(eq(x, 0.0), ge(real_of(y), 0.0))
        by_y = where(dead, 0.0, g * conj_of(out * log(x)))
    return by_x, by_y


def copysign_grad(g: Any, x: Any, out: Any) -> tuple:
    zero = eq(x, 0.0)
    return (where(zero, 0.0, g * (out / where(zero, 1.0, x))), None)


# fmt: off
whole_pair = samples.binary_int()
add = _binary("add", "The sum.", scalar_add, np.add, lambda g: (g, g), cheap=True,
              pair=pairs.add)
sub = _binary("sub", "The difference.", s.sub, np.subtract, lambda g: (g, neg(g)), cheap=True,
              pair=pairs.sub)
mul = _binary("mul", "The product.", scalar_mul, np.multiply, mul_grad, cheap=True,
              pair=pairs.mul)
div = _binary("div", "The true quotient.", s.div, np.true_divide, div_grad, dtype=inexact_dtype,
              promote="float", cheap=True, pair=pairs.div)
floor_divide = _binary("floor_divide", "The quotient toward minus infinity.", scalar_floor_divide,
                       np.floor_divide, STEP, dtype=number_dtype, pair='"div_floor_cpu"')
fmod = _binary("fmod", "The remainder with the dividend's sign.", scalar_fmod, np.fmod,
               lambda g, x, y: (g, -g * trunc(x / y)), dtype=number_dtype)
remainder = _binary("remainder", "The remainder with the divisor's sign.", scalar_remainder,
                    ref.remainder, lambda g, x, y: (g, -g * floor_quotient(x, y)),
                    dtype=number_dtype)
pow_ = _binary("pow", "x to the power of y.", scalar_pow, ref.int_power, pow_grad,
               samples=samples.binary(0.2, 2, -2, 3), pair=complex_math.power)
maximum = _binary("maximum", "The larger; NaN if either is.", scalar_maximum, np.maximum,
                  extreme_grad("lt"), torch=("torch.maximum", "Tensor.maximum"), cheap=True,
                  pair="maximum not implemented for complex tensors.")
minimum = _binary("minimum", "The smaller; NaN if either is.", scalar_minimum, np.minimum,
                  extreme_grad("gt"), torch=("torch.minimum", "Tensor.minimum"), cheap=True,
                  pair="minimum not implemented for complex tensors.")
atan2 = _binary("atan2", "The angle of the point (y, x).", "atan2", np.arctan2,
                atan2_grad,
                dtype=float_dtype, promote="float")
copysign = _binary("copysign", "|x| with the sign of y.", scalar_copysign, np.copysign,
                   copysign_grad, dtype=float_dtype, promote="float",
                   samples=samples.binary(-2, 2, -2, 2))
nextafter = _binary("nextafter", "The next float after x toward y.", scalar_nextafter,
                    np.nextafter, lambda g, x, y: (where(eq(x, y), 0.0, g), None),
                    dtype=float_dtype, samples=samples.binary(-2, 2, -2, 2))
eq = _binary("eq", "True where equal.", _compare("eq"), np.equal, STEP, dtype=bool_dtype,
             cheap=True, pair=pairs.eq)
ne = _binary("ne", "True where different (NaN too).", _compare("ne"), np.not_equal, STEP,
             dtype=bool_dtype, cheap=True, pair=pairs.ne)
lt = _binary("lt", "True where less.", _compare("lt"), np.less, STEP, dtype=bool_dtype, cheap=True)
le = _binary("le", "True where less or equal.", _compare("le"), np.less_equal, STEP,
             dtype=bool_dtype, cheap=True)
gt = _binary("gt", "True where greater.", _compare("gt"), np.greater, STEP, dtype=bool_dtype,
             cheap=True)
ge = _binary("ge", "True where greater or equal.", _compare("ge"), np.greater_equal, STEP,
             dtype=bool_dtype, cheap=True)
logical_and = _binary("logical_and", "True where both are not 0.", _logic(s.bit_and),
                      np.logical_and, STEP, dtype=bool_dtype, cheap=True,
                      pair=pairs.logic("logical_and"))
logical_or = _binary("logical_or", "True where either is not 0.", _logic(s.bit_or),
                     np.logical_or, STEP, dtype=bool_dtype, cheap=True,
                      pair=pairs.logic("logical_or"))
logical_xor = _binary("logical_xor", "True where one of both is not 0.", _logic(s.bit_xor),
                      np.logical_xor, STEP, dtype=bool_dtype, cheap=True,
                      pair=pairs.logic("logical_xor"))
BITS = NotDifferentiable("the operands are whole numbers")
bitwise_and = _binary("bitwise_and", "Bits set in both.", s.bit_and, np.bitwise_and, BITS,
                      dtype=integral_dtype, samples=whole_pair, cheap=True)
bitwise_or = _binary("bitwise_or", "Bits set in either.", s.bit_or, np.bitwise_or, BITS,
                     dtype=integral_dtype, samples=whole_pair, cheap=True)
bitwise_xor = _binary("bitwise_xor", "Bits set in one of both.", s.bit_xor, np.bitwise_xor, BITS,
                      dtype=integral_dtype, samples=whole_pair, cheap=True)
shift_left = _binary("shift_left", "Bits moved up by y.", _shift(True), _shift_reference(True),
                     BITS, dtype=whole_dtype, samples=whole_pair, cheap=True,
                     torch=torch_names("bitwise_left_shift"))
shift_right = _binary("shift_right", "Bits moved down by y (the sign comes in).", _shift(False),
                      _shift_reference(False), BITS, dtype=whole_dtype, samples=whole_pair,
                      cheap=True, torch=torch_names("bitwise_right_shift"))
# fmt: on
