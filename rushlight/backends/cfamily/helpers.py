"""Operations that a language does not have with the meaning of ir/scalar, as small functions.

In: an op and its dtypes. Out: a `Helper`: parameters and one expression over them, of ops that
every language has (raw ones are marked "raw_"). Printers print a function for each one used, so a
conversion to bfloat16 is written once for all languages. Values of bfloat16 and float16 are their
bits, as uint16. Always true: no input makes an undefined operation.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from rushlight.base.dtypes import (
    DType,
    find_dtype,
    float32,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool",
    **{f"{u}int{n}": f"{'u' if u else 'i'}{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Helper:
    """result name(parameters) { return value; }"""

    name: str
    parameters: tuple[E, ...]
    value: E


def raw(op: str, *args: E) -> E:
    """The language's own operator, for operands for which it is defined."""
    return s.make(f"raw_{op}", args, args[0].dtype)


def _parameter(name: str, dtype: DType) -> E:
    return s.param(name, dtype)


def is_narrow_float(dtype: DType) -> bool:
    return dtype.is_floating_point and dtype.itemsize == 2


def carrier(dtype: DType) -> DType:
    """The dtype that carries a value in text: the bits of floats of 16 and 8 bits."""
    if dtype.is_floating_point and dtype.itemsize == 1:
        return uint8
    return uint16 if is_narrow_float(dtype) else dtype


@functools.cache
def cast_helper(source: DType, goal: DType) -> Helper | None:
    """One step of a conversion that needs care; None: the language's own cast is right.

    16-bit floats go through float32: their callers take two steps.
    """
    name = f"{SHORT[source.name]}_to_{SHORT[goal.name]}"
    if is_narrow_float(source) and goal is float32:
        x = _parameter("x", uint16)
        widen = _half_to_float if source.name == "float16" else _bfloat_to_float
        return Helper(name, (x,), widen(x))
    if is_narrow_float(goal) and source is float32:
        x = _parameter("x", float32)
        narrow = _float_to_half if goal.name == "float16" else _float_to_bfloat
        return Helper(name, (x,), narrow(x))
    if source.is_floating_point and goal.is_integral and goal.kind != "bool":
        x = _parameter("x", source)
        return Helper(name, (x,), _float_to_int(x, goal))
    return None


def _bits(value: int, like: E) -> E:
    return s.const(value, like.dtype)


def _raw_shl(x: E, n: int) -> E:
    return raw("shl", x, s.const(n, x.dtype))


def _raw_shr(x: E, n: int) -> E:
    return raw("shr", x, s.const(n, x.dtype))


def _bfloat_to_float(x: E) -> E:
    return s.bitcast(_raw_shl(s.cast(x, uint32), 16), float32)


def _float_to_bfloat(x: E) -> E:
    """Round to nearest, ties to even: add 0x7fff and the lowest kept bit, drop 16 bits."""
    bits = s.bitcast(x, uint32)
    high = _raw_shr(bits, 16)
    rounded = _raw_shr(bits + 0x7FFF + (high & 1), 16)
    return s.cast(s.select(s.is_nan(x), high | 0x40, rounded), uint16)


def _half_to_float(x: E) -> E:
    bits = s.cast(x, uint32)
    body = _raw_shl(bits & 0x7FFF, 13)
    exponent = body & (0x7C00 << 13)
    normal = body + ((127 - 15) << 23)
    special = body + ((255 - 31) << 23)
    special = special | s.select(s.gt(special, _bits(0x7F800000, bits)), _bits(0x400000, bits), 0)
    # A subnormal: put the bits under the exponent of 2**-14, then take 2**-14 away (exact).
    tiny = s.bitcast(body + (113 << 23), float32) - 2.0**-14
    ends = s.select(s.eq(exponent, _bits(0, bits)), s.bitcast(tiny, uint32), normal)
    found = s.select(s.eq(exponent, _bits(0x7C00 << 13, bits)), special, ends)
    return s.bitcast(found | _raw_shl(bits & 0x8000, 16), float32)


def _float_to_half(x: E) -> E:
    bits = s.bitcast(x, uint32)
    body = bits & 0x7FFFFFFF
    payload = _raw_shr(body, 13) & 0x3FF
    is_nan = s.gt(body, _bits(0x7F800000, bits))
    special = s.select(is_nan, payload | 0x7E00, _bits(0x7C00, bits))
    # A subnormal result: adding 0.5 leaves it, rounded, in the low bits.
    tiny = s.bitcast(s.bitcast(body, float32) + 0.5, uint32) - (126 << 23)
    odd = _raw_shr(body, 13) & 1
    normal = _raw_shr(body + ((15 - 127) << 23 & 0xFFFFFFFF) + 0xFFF + odd, 13)
    found = s.select(s.lt(body, _bits(113 << 23, bits)), tiny, normal)
    found = s.select(s.ge(body, _bits((127 + 16) << 23, bits)), special, found)
    return s.cast(found | (_raw_shr(bits, 16) & 0x8000), uint16)


def _float_to_int(x: E, goal: DType) -> E:
    """As x86 has it: narrow ints are the low bits of an int32, uint32 those of an int64."""
    if goal is uint64:
        limit = 2.0**63
        high = s.ge(x, s.const(limit, x.dtype))
        part = s.cast(_float_to_signed(s.select(high, x - limit, x), int64), uint64)
        return s.select(high, part ^ (1 << 63), part)
    through = int32 if goal.itemsize < 4 or goal is int32 else int64
    wide = _float_to_signed(x, through)
    return wide if through is goal else s.cast(wide, goal)


def _float_to_signed(x: E, goal: DType) -> E:
    """Toward zero; NaN and what does not fit give the least int."""
    limit = 2.0 ** (8 * goal.itemsize - 1)
    # The largest value below the range that truncates into it: -limit - 1 where that is a float.
    has_below = x.dtype.itemsize == 8 and goal is int32
    above = s.gt(x, s.const(-limit - 1.0, x.dtype)) if has_below else s.ge(x, -limit)
    fits = s.make("and", (s.lt(x, s.const(limit, x.dtype)), above), s.lt(x, x).dtype)
    whole = s.make("raw_cast", (s.select(fits, x, 0.0),), goal)
    return s.select(fits, whole, s.const(-int(limit), goal))


@functools.cache
def int_helper(op: str, dtype: DType) -> Helper:
    """idiv, irem, shl and shr for any operands."""
    a, b = _parameter("a", dtype), _parameter("b", dtype)
    value = _divided(op, a, b) if op in ("idiv", "irem") else _shifted(op, a, b)
    return Helper(f"{op}_{SHORT[dtype.name]}", (a, b), value)


def _divided(op: str, a: E, b: E) -> E:
    """Toward zero; a divisor 0 gives 0; the least int by -1 wraps."""
    zero, one = s.const(0, a.dtype), s.const(1, a.dtype)
    by_zero = s.eq(b, zero)
    if a.dtype.kind == "uint":
        return s.select(by_zero, zero, raw(op, a, s.select(by_zero, one, b)))
    minus_one = s.eq(b, s.const(-1, a.dtype))
    safe = s.select(by_zero | minus_one, one, b)
    by_minus_one = s.neg(a) if op == "idiv" else zero
    return s.select(by_zero, zero, s.select(minus_one, by_minus_one, raw(op, a, safe)))


def _shifted(op: str, a: E, b: E) -> E:
    """All bits out gives 0, or copies of the sign for shr of signed ints."""
    width = 8 * a.dtype.itemsize
    inside = s.lt(b, s.const(width, b.dtype))
    if a.dtype.kind == "int":
        inside = inside & s.ge(b, s.const(0, b.dtype))
    if op == "shr" and a.dtype.kind == "int":
        return raw("shr", a, s.select(inside, b, s.const(width - 1, b.dtype)))
    return s.select(inside, raw(op, a, s.select(inside, b, 0)), s.const(0, a.dtype))


@functools.cache
def index_helper(op: str, dtype_name: str) -> Helper:
    """floordiv and mod of index expressions that may be negative, by a positive divisor."""
    dtype = find_dtype(dtype_name)
    a, b = _parameter("a", dtype), _parameter("b", dtype)
    rest = raw("irem", a, b)
    below = s.lt(rest, s.const(0, dtype))
    value = (
        s.select(below, rest + b, rest)
        if op == "mod"
        else raw("idiv", a, b) - s.select(below, s.const(1, dtype), s.const(0, dtype))
    )
    return Helper(f"floor_{'mod' if op == 'mod' else 'div'}", (a, b), value)


@functools.cache
def join_helper(op: str, dtype_name: str) -> Helper:
    """min and max of index expressions."""
    dtype = find_dtype(dtype_name)
    a, b = _parameter("a", dtype), _parameter("b", dtype)
    first = s.lt(a, b) if op == "min" else s.gt(a, b)
    return Helper(f"index_{op}", (a, b), s.select(first, a, b))


@functools.cache
def extreme_helper(op: str, dtype: DType) -> Helper:
    """fold_max and fold_min: NaN wins; +0 is greater than -0, so that the order of a fold does not
    show."""
    x, y = _parameter("x", dtype), _parameter("y", dtype)
    better = s.gt(x, y) if op == "fold_max" else s.lt(x, y)
    value = s.select(better, x, y)
    if dtype.is_floating_point:
        # Equal values have equal bits, but for zeros: their sign is what decides.
        whole = find_dtype(f"int{8 * dtype.itemsize}")
        bits = s.bit_and if op == "fold_max" else s.bit_or
        both = s.bitcast(bits(s.bitcast(x, whole), s.bitcast(y, whole)), dtype)
        value = s.select(s.eq(x, y), both, s.select(better | s.is_nan(x), x, y))
    return Helper(f"{op}_{SHORT[dtype.name]}", (x, y), value)
