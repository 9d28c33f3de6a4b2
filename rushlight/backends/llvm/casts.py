"""Conversions between dtypes, with the same bits on every CPU.

float16 and bfloat16 values are their bits in i16. All conversions from and to them go through
float32 (as PyTorch's do). NaN stays NaN and becomes quiet.
"""

from __future__ import annotations

import llvmlite.ir as ir

from rushlight.backends.llvm.ops import F32, F64, I32, Op, constant, with_lanes
from rushlight.base.dtypes import DType, float32, int32, int64

I1, I16, F16 = ir.IntType(1), ir.IntType(16), ir.HalfType()


def emit_cast(op: Op) -> ir.Value:
    """op.args[0] of dtype op.source as op.dtype."""
    b, (x,), source, goal = op.b, op.args, op.source, op.dtype
    if source is goal:
        return x
    if source.compute is float32 and source is not float32:
        x = _bfloat16_to_float(b, x) if source.name == "bfloat16" else _half_to_float(op, x)
        return emit_cast(op._replace(args=(x,), source=float32))
    if goal.kind == "bool":
        return _to_bool(b, x, source)
    if goal.is_floating_point and goal.itemsize == 2:
        x = emit_cast(op._replace(dtype=float32))
        return _float_to_bfloat16(b, x) if goal.name == "bfloat16" else _float_to_half(op, x)
    kind = with_lanes(_plain(goal), x.type)
    if source.is_floating_point:
        return _from_float(op, x, kind)
    if goal.is_floating_point:
        return b.sitofp(x, kind) if source.kind == "int" else b.uitofp(x, kind)
    return _resize(b, x, source.kind == "int", kind)


def cast_bytes(source: DType, goal: DType) -> int:
    """The widest value on the way of a cast, besides its ends."""
    if source.is_floating_point and goal.name == "uint32":
        return 8
    half = any(d.is_floating_point and d.itemsize == 2 for d in (source, goal))
    return 4 if half else 1


def emit_bitcast(op: Op) -> ir.Value:
    """The same bits as another dtype; a bool is the byte 0 or 1."""
    b, (x,) = op.b, op.args
    if op.dtype.kind == "bool":
        return b.icmp_unsigned("!=", x, constant(x.type, 0))
    kind = with_lanes(_plain(op.dtype), x.type)
    return b.zext(x, kind) if op.source.kind == "bool" else b.bitcast(x, kind)


def _plain(dtype: DType) -> ir.Type:
    if dtype.is_floating_point and dtype.itemsize > 2:
        return F32 if dtype.itemsize == 4 else F64
    return I1 if dtype.kind == "bool" else ir.IntType(8 * dtype.itemsize)


def _resize(b: ir.IRBuilder, x: ir.Value, signed: bool, kind: ir.Type) -> ir.Value:
    old, new = (getattr(t, "element", t).width for t in (x.type, kind))
    if new == old:
        return x
    if new < old:
        return b.trunc(x, kind)
    return b.sext(x, kind) if signed else b.zext(x, kind)


def _to_bool(b: ir.IRBuilder, x: ir.Value, source: DType) -> ir.Value:
    if source.is_floating_point:
        return b.fcmp_unordered("!=", x, constant(x.type, 0.0))
    return b.icmp_unsigned("!=", x, constant(x.type, 0))


def _from_float(op: Op, x: ir.Value, kind: ir.Type) -> ir.Value:
    b, goal = op.b, op.dtype
    if goal.is_floating_point:
        return b.fpext(x, kind) if goal.itemsize > op.source.itemsize else b.fptrunc(x, kind)
    if goal.name == "uint64":
        return _float_to_uint64(b, x, op.source)
    # As x86 has it: narrow ints are the low bits of an int32, uint32 those of an int64.
    through = int32 if goal.itemsize < 4 or goal is int32 else int64
    wide = _float_to_signed(b, x, op.source, through)
    return _resize(b, wide, True, kind)


def _float_to_signed(b: ir.IRBuilder, x: ir.Value, source: DType, goal: DType) -> ir.Value:
    """Toward zero; NaN and what does not fit give the least int."""
    bits = 8 * goal.itemsize
    limit = float(1 << (bits - 1))
    # The largest value below the range that truncates into it: -limit - 1 where that is a float.
    below = -limit - 1.0 if source.itemsize == 8 and bits == 32 else None
    fits = b.fcmp_ordered("<", x, constant(x.type, limit))
    low = b.fcmp_ordered(">=" if below is None else ">", x, constant(x.type, below or -limit))
    fits = b.and_(fits, low)
    kind = with_lanes(ir.IntType(bits), x.type)
    whole = b.fptosi(b.select(fits, x, constant(x.type, 0.0)), kind)
    return b.select(fits, whole, constant(kind, -(1 << (bits - 1))))


def _float_to_uint64(b: ir.IRBuilder, x: ir.Value, source: DType) -> ir.Value:
    """As int64 below 2**63 (negative values wrap), else from what is above 2**63."""
    limit = constant(x.type, float(1 << 63))
    high = b.fcmp_ordered(">=", x, limit)
    part = _float_to_signed(b, b.select(high, b.fsub(x, limit), x), source, int64)
    return b.select(high, b.xor(part, constant(part.type, -(1 << 63))), part)


def _bfloat16_to_float(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    bits = b.zext(x, with_lanes(I32, x.type))
    return b.bitcast(b.shl(bits, constant(bits.type, 16)), with_lanes(F32, x.type))


def _float_to_bfloat16(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Round to nearest, ties to even: add 0x7fff and the lowest kept bit, drop 16 bits."""
    bits = b.bitcast(x, with_lanes(I32, x.type))
    kind = bits.type
    sixteen = constant(kind, 16)
    high = b.lshr(bits, sixteen)
    rounded = b.add(b.add(bits, constant(kind, 0x7FFF)), b.and_(high, constant(kind, 1)))
    quiet = b.or_(high, constant(kind, 0x40))
    is_nan = b.fcmp_unordered("uno", x, x)
    result = b.select(is_nan, quiet, b.lshr(rounded, sixteen))
    return b.trunc(result, with_lanes(I16, x.type))


def _half_to_float(op: Op, x: ir.Value) -> ir.Value:
    b, kind = op.b, with_lanes(F32, x.type)
    if op.target.f16c:
        return b.fpext(b.bitcast(x, with_lanes(F16, x.type)), kind)
    ints = with_lanes(I32, x.type)
    bits = b.zext(x, ints)
    body = b.shl(b.and_(bits, constant(ints, 0x7FFF)), constant(ints, 13))
    exponent = b.and_(body, constant(ints, 0x7C00 << 13))
    normal = b.add(body, constant(ints, (127 - 15) << 23))
    special = b.add(body, constant(ints, (255 - 31) << 23))
    has_payload = b.icmp_unsigned(">", special, constant(ints, 0x7F800000))
    special = b.or_(special, b.select(has_payload, constant(ints, 0x400000), constant(ints, 0)))
    # A subnormal: put the bits under the exponent of 2**-14, then take 2**-14 away (exact).
    tiny = b.bitcast(b.add(body, constant(ints, 113 << 23)), kind)
    tiny = b.bitcast(b.fsub(tiny, constant(kind, 2.0**-14)), ints)
    is_special = b.icmp_unsigned("==", exponent, constant(ints, 0x7C00 << 13))
    is_tiny = b.icmp_unsigned("==", exponent, constant(ints, 0))
    result = b.select(is_special, special, b.select(is_tiny, tiny, normal))
    sign = b.shl(b.and_(bits, constant(ints, 0x8000)), constant(ints, 16))
    return b.bitcast(b.or_(result, sign), kind)


def _float_to_half(op: Op, x: ir.Value) -> ir.Value:
    b, kind = op.b, with_lanes(I16, x.type)
    if op.target.f16c:
        return b.bitcast(b.fptrunc(x, with_lanes(F16, x.type)), kind)
    ints = with_lanes(I32, x.type)
    bits = b.bitcast(x, ints)
    sign = b.and_(bits, constant(ints, -(1 << 31)))
    body = b.xor(bits, sign)
    payload = b.and_(b.lshr(body, constant(ints, 13)), constant(ints, 0x3FF))
    nan = b.or_(payload, constant(ints, 0x7E00))
    is_nan = b.icmp_unsigned(">", body, constant(ints, 0x7F800000))
    special = b.select(is_nan, nan, constant(ints, 0x7C00))
    # A subnormal result: adding 0.5 leaves it, rounded, in the low bits.
    tiny = b.fadd(b.bitcast(body, x.type), constant(x.type, 0.5))
    tiny = b.sub(b.bitcast(tiny, ints), constant(ints, 126 << 23))
    odd = b.and_(b.lshr(body, constant(ints, 13)), constant(ints, 1))
    normal = b.add(b.add(body, constant(ints, ((15 - 127) << 23) + 0xFFF)), odd)
    normal = b.lshr(normal, constant(ints, 13))
    is_tiny = b.icmp_unsigned("<", body, constant(ints, 113 << 23))
    is_special = b.icmp_unsigned(">=", body, constant(ints, (127 + 16) << 23))
    result = b.select(is_special, special, b.select(is_tiny, tiny, normal))
    return b.trunc(b.or_(result, b.lshr(sign, constant(ints, 16))), kind)
