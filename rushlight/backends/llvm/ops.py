"""Pure scalar ops as LLVM instructions, for scalars and vectors alike (the BASIC set).

Every function gets an `Op` and gives the value; there are no fast-math flags, no poison for any
input, and (but for float64 `fma` on a CPU without FMA) no calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.ir as ir

from rushlight.backends.llvm.caps import Target
from rushlight.base.dtypes import DType
from rushlight.ir.scalar import E

I32, I64 = ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()


class Op(NamedTuple):
    """One operation to emit: `source` is the dtype of the first argument."""

    b: ir.IRBuilder
    args: tuple[ir.Value, ...]
    dtype: DType
    source: DType
    target: Target


class SplatConstant(ir.FormattedConstant):
    """One scalar in all lanes, in LLVM's short form; `constant` is its text."""

    def __init__(self, kind: ir.VectorType, one: ir.Constant) -> None:
        # The base class would take the text for an element and repeat it.
        ir.Constant.__init__(self, kind, ir.Undefined)
        self.one = one
        self.constant = f"splat ({one.type} {one.get_reference()})"


def lane_count(kind: ir.Type) -> int:
    return kind.count if isinstance(kind, ir.VectorType) else 1


def with_lanes(element: ir.Type, like: ir.Type) -> ir.Type:
    """`element`, as a vector if `like` is one."""
    return ir.VectorType(element, like.count) if isinstance(like, ir.VectorType) else element


def constant(kind: ir.Type, value: Any) -> ir.Constant:
    """A constant of a scalar or vector type (the same in all lanes)."""
    if not isinstance(kind, ir.VectorType):
        return ir.Constant(kind, value)
    return SplatConstant(kind, ir.Constant(kind.element, value))


def splat(b: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """A vector with `value` in all lanes."""
    kind = ir.VectorType(value.type, count)
    if isinstance(value, ir.Constant):
        return SplatConstant(kind, value)
    first = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, count), [0] * count)
    return b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def suffix(kind: ir.Type) -> str:
    """The part of an intrinsic's name that stands for a type: v16f32, i64, v8p0."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{suffix(kind.element)}"
    if isinstance(kind, ir.PointerType):
        return "p0"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {"half": "f16", "float": "f32", "double": "f64"}[str(kind)]


def intrinsic(
    b: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value], **options: Any
) -> ir.Value:
    """A call of an LLVM intrinsic by its full name."""
    known = b.module.globals.get(name)
    if known is None:
        known = ir.Function(b.module, ir.FunctionType(result, [a.type for a in args]), name)
    return b.call(known, args, **options)


def float_intrinsic(name: str) -> Callable[[Op], ir.Value]:
    def emit(op: Op) -> ir.Value:
        kind = op.args[0].type
        return intrinsic(op.b, f"llvm.{name}.{suffix(kind)}", kind, list(op.args))

    return emit


def arithmetic(int_name: str, float_name: str) -> Callable[[Op], ir.Value]:
    def emit(op: Op) -> ir.Value:
        name = float_name if op.dtype.is_floating_point else int_name
        return getattr(op.b, name)(*op.args)

    return emit


def negate(op: Op) -> ir.Value:
    (x,) = op.args
    return op.b.fneg(x) if op.dtype.is_floating_point else op.b.sub(constant(x.type, 0), x)


def absolute(op: Op) -> ir.Value:
    (x,) = op.args
    if op.dtype.is_floating_point:
        return float_intrinsic("fabs")(op)
    if op.dtype.kind != "int":
        return x
    zero = constant(x.type, 0)
    return op.b.select(op.b.icmp_signed("<", x, zero), op.b.sub(zero, x), x)


def fused_multiply_add(op: Op) -> ir.Value:
    if op.target.fma or op.dtype.itemsize == 8:
        return float_intrinsic("fma")(op)
    return _fma32_in_double(op)


def _fma32_in_double(op: Op) -> ir.Value:
    """The exact product in double, the sum rounded to odd there, then rounded once to float."""
    b, kind = op.b, op.args[0].type
    wide = with_lanes(F64, kind)
    x, y, c = (b.fpext(v, wide) for v in op.args)
    product = b.fmul(x, y)
    total = b.fadd(product, c)
    back = b.fsub(total, product)
    error = b.fadd(b.fsub(product, b.fsub(total, back)), b.fsub(c, back))
    bits = b.bitcast(total, with_lanes(I64, kind))
    zero = constant(wide, 0.0)
    # Ordered: false when the error is NaN (an infinite or NaN sum needs no repair).
    inexact = b.fcmp_ordered("!=", error, zero)
    even = b.icmp_unsigned("==", b.and_(bits, constant(bits.type, 1)), constant(bits.type, 0))
    outward = b.xor(b.fcmp_ordered(">", error, zero), b.fcmp_ordered("<", total, zero))
    step = b.select(outward, constant(bits.type, 1), constant(bits.type, -1))
    odd = b.select(b.and_(inexact, even), b.add(bits, step), bits)
    return b.fptrunc(b.bitcast(odd, wide), kind)


def divide(op: Op) -> ir.Value:
    return op.b.fdiv(*op.args)


def integer_divide(name: str) -> Callable[[Op], ir.Value]:
    def emit(op: Op) -> ir.Value:
        b, (x, y) = op.b, op.args
        kind = x.type
        one, zero = constant(kind, 1), constant(kind, 0)
        by_zero = b.icmp_signed("==", y, zero)
        bad = by_zero
        if op.dtype.kind == "int":
            least = constant(kind, -(1 << (8 * op.dtype.itemsize - 1)))
            wraps = b.and_(
                b.icmp_signed("==", x, least), b.icmp_signed("==", y, constant(kind, -1))
            )
            bad = b.or_(by_zero, wraps)
        result = getattr(b, ("s" if op.dtype.kind == "int" else "u") + name)(
            x, b.select(bad, one, y)
        )
        return b.select(by_zero, zero, result)

    return emit


def compare(symbol: str) -> Callable[[Op], ir.Value]:
    def emit(op: Op) -> ir.Value:
        if op.source.is_floating_point:
            ordered = op.b.fcmp_unordered if symbol == "!=" else op.b.fcmp_ordered
            return ordered(symbol, *op.args)
        if op.source.kind == "int":
            return op.b.icmp_signed(symbol, *op.args)
        return op.b.icmp_unsigned(symbol, *op.args)

    return emit


def invert(op: Op) -> ir.Value:
    (x,) = op.args
    return op.b.xor(x, constant(x.type, -1 if op.dtype.kind != "bool" else 1))


def _shifts_less_than_all(y: ir.Value, op: Op) -> bool:
    """Is it known that at least one bit stays?"""
    one = y.one if isinstance(y, SplatConstant) else y
    known = isinstance(one, ir.Constant) and isinstance(one.constant, int)
    return known and 0 <= one.constant < 8 * op.dtype.itemsize


def shift_left(op: Op) -> ir.Value:
    """Shifting out all bits gives 0 (LLVM alone: poison)."""
    b, (x, y) = op.b, op.args
    if _shifts_less_than_all(y, op):
        return b.shl(x, y)
    width = constant(x.type, 8 * op.dtype.itemsize)
    inside = b.icmp_unsigned("<", y, width)
    zero = constant(x.type, 0)
    return b.select(inside, b.shl(x, b.select(inside, y, zero)), zero)


def shift_right(op: Op) -> ir.Value:
    """Arithmetic for signed (at most width - 1), else logical (all bits out gives 0)."""
    b, (x, y) = op.b, op.args
    if _shifts_less_than_all(y, op):
        return b.ashr(x, y) if op.dtype.kind == "int" else b.lshr(x, y)
    width = 8 * op.dtype.itemsize
    inside = b.icmp_unsigned("<", y, constant(x.type, width))
    if op.dtype.kind == "int":
        return b.ashr(x, b.select(inside, y, constant(x.type, width - 1)))
    zero = constant(x.type, 0)
    return b.select(inside, b.lshr(x, b.select(inside, y, zero)), zero)


def select(op: Op) -> ir.Value:
    return op.b.select(*op.args)


OPS: dict[str, Callable[[Op], ir.Value]] = {
    "add": arithmetic("add", "fadd"),
    "sub": arithmetic("sub", "fsub"),
    "mul": arithmetic("mul", "fmul"),
    "neg": negate,
    "abs": absolute,
    "div": divide,
    "idiv": integer_divide("div"),
    "irem": integer_divide("rem"),
    "fma": fused_multiply_add,
    "sqrt": float_intrinsic("sqrt"),
    "floor": float_intrinsic("floor"),
    "ceil": float_intrinsic("ceil"),
    "trunc": float_intrinsic("trunc"),
    "rint": float_intrinsic("roundeven"),
    "lt": compare("<"),
    "le": compare("<="),
    "gt": compare(">"),
    "ge": compare(">="),
    "eq": compare("=="),
    "ne": compare("!="),
    "and": arithmetic("and_", "and_"),
    "or": arithmetic("or_", "or_"),
    "xor": arithmetic("xor", "xor"),
    "not": invert,
    "shl": shift_left,
    "shr": shift_right,
    "select": select,
}


def constant_payload(node: E) -> Any:
    value = node.meta[0]
    if node.dtype.is_floating_point and node.dtype.itemsize == 2:
        return int(node.dtype.np.type(value).view("uint16"))
    return int(value) if node.dtype.is_integral else value


def vector_index_op(b: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Index arithmetic on vectors of i64."""
    zero = constant(x.type, 0)
    if name in ("add", "mul"):
        return getattr(b, name)(x, y, flags=("nsw",))
    if name in ("min", "max"):
        return b.select(b.icmp_signed("<" if name == "min" else ">", x, y), x, y)
    remainder = b.srem(x, y)
    below = b.icmp_signed("<", remainder, zero)
    if name == "mod":
        return b.select(below, b.add(remainder, y), remainder)
    return b.sub(b.sdiv(x, y), b.zext(below, x.type))
