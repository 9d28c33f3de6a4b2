"""Scalar expressions: what happens to one element. The innermost language of the compiler.

An `E` is an interned DAG node (op, args, dtype, meta). Record bodies (`scalar=`) build them, tile
programs hold them, backends emit them. Two groups of ops:

  basic   every backend emits these, with exactly this meaning:
          const param index load local acc            leaves (see the builders)
          add sub mul neg abs                          ints wrap; floats IEEE, round to nearest even
          div (float) idiv irem (ints, toward zero; divisor 0 gives 0)
          fma (float, one rounding) sqrt floor ceil trunc rint (half to even)
          lt le gt ge eq ne (-> bool; IEEE: comparisons with NaN are false, ne is true)
          and or xor not (bool and ints) shl shr (shr: arithmetic for signed)
          select cast bitcast
  math    exp log sin tanh erf pow ... : expanded to basic ops by compiler/lower/decompose_math,
          so that every backend computes the same bits (never libm)

Arithmetic is on float32, float64, ints and bool. bfloat16 and float16 occur only in load, store
and cast: the compiler casts around each op.
"""

from __future__ import annotations

import struct
import threading
import weakref
from typing import Any

from rushlight.base.dtypes import DType, bool_, float64, int64
from rushlight.base.fork import hold_over_fork
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_walk import variables

BASIC = frozenset(
    "const param index load local acc add sub mul neg abs div idiv irem fma sqrt floor ceil trunc "
    "rint lt le gt ge eq ne and or xor not shl shr select cast bitcast check_index".split()
)
MATH_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh erf erfc erfinv lgamma digamma sigmoid rsqrt"
).split()
MATH_BINARY = ("pow", "atan2")


# dtype name -> (to float32, from any dtype): numbers of one byte (ir/float8.py), which no backend
# knows; in memory they are bytes.
CONVERSIONS: dict[str, tuple[Any, Any]] = {}


class E:
    """One scalar expression. `meta` is a hashable extra whose meaning the op gives."""

    __slots__ = ("op", "args", "dtype", "meta", "__weakref__")
    op: str
    args: tuple[E, ...]
    dtype: DType
    meta: Any

    def __add__(self, other: Any) -> E:
        return add(self, other)

    def __radd__(self, other: Any) -> E:
        return add(_lift(other, self), self)

    def __sub__(self, other: Any) -> E:
        return sub(self, other)

    def __rsub__(self, other: Any) -> E:
        return sub(_lift(other, self), self)

    def __mul__(self, other: Any) -> E:
        return mul(self, other)

    def __rmul__(self, other: Any) -> E:
        return mul(_lift(other, self), self)

    def __truediv__(self, other: Any) -> E:
        return div(self, other)

    def __rtruediv__(self, other: Any) -> E:
        return div(_lift(other, self), self)

    def __neg__(self) -> E:
        return neg(self)

    def __and__(self, other: Any) -> E:
        return make("and", (self, _lift(other, self)), self.dtype)

    def __or__(self, other: Any) -> E:
        return make("or", (self, _lift(other, self)), self.dtype)

    def __xor__(self, other: Any) -> E:
        return make("xor", (self, _lift(other, self)), self.dtype)

    def __invert__(self) -> E:
        return make("not", (self,), self.dtype)

    def __lshift__(self, other: Any) -> E:
        return make("shl", (self, _lift(other, self)), self.dtype)

    def __rshift__(self, other: Any) -> E:
        return make("shr", (self, _lift(other, self)), self.dtype)

    def __repr__(self) -> str:
        return to_text(self)


_INTERNED: dict[tuple, weakref.ref[E]] = {}  # dead entries are misses, swept now and then
_SWEEP_AT = 1 << 15
_LOCK = hold_over_fork(threading.Lock())


def make(op: str, args: tuple[E, ...], dtype: DType, meta: Any = None) -> E:
    """The interned expression; arguments are not changed or checked here."""
    key = (op, tuple(map(id, args)), dtype, meta)
    weak = _INTERNED.get(key)
    found = None if weak is None else weak()
    if found is None:
        found = E.__new__(E)
        found.op, found.args, found.dtype, found.meta = op, args, dtype, meta
        with _LOCK:
            _INTERNED[key] = weakref.ref(found)
            if len(_INTERNED) > _SWEEP_AT:
                _sweep()
    return found


def _sweep() -> None:
    global _SWEEP_AT
    for key in [key for key, weak in _INTERNED.items() if weak() is None]:
        del _INTERNED[key]
    _SWEEP_AT = max(1 << 15, 2 * len(_INTERNED))


def _lift(value: Any, like: E) -> E:
    return value if isinstance(value, E) else const(value, like.dtype)


def const(value: Any, dtype: DType) -> E:
    """A literal. meta = (python value, bits) so that -0.0 and NaN keep their identity."""
    if dtype.name in CONVERSIONS:
        return cast(const(value, float64), dtype)
    if dtype.kind == "bool":
        value = bool(value)
    elif dtype.is_floating_point:
        value = float(value)
    else:
        value = int(value)
    bits = struct.pack("<d", value) if isinstance(value, float) else value
    return make("const", (), dtype, (value, bits))


def param(name: str, dtype: DType) -> E:
    """A scalar parameter of the program (its Param has this name)."""
    return make("param", (), dtype, name)


def index(value: int | Expr) -> E:
    """An integer index expression as an int64 value."""
    return make("index", (), int64, value)


def load(buffer: Any, at: int | Expr, mask: E | None = None, other: E | None = None) -> E:
    """buffer[at] (an element offset); where `mask` is false nothing is read and it is `other`.

    meta = (buffer, at). args = (mask, other) or (). `at` may hold "value" Vars: see `as_index`.
    """
    args = () if mask is None else (mask, other if other is not None else const(0, buffer.dtype))
    return make("load", args, buffer.dtype, (buffer, at))


def local(tile: Any, at: int | Expr) -> E:
    """An element of a tile that is private to the instance. meta = (tile, at)."""
    return make("local", (), tile.dtype, (tile, at))


def acc(dtype: DType, number: int = 0) -> E:
    """In the epilogue of a grid: the finished sum of this element (one of several by number)."""
    return make("acc", (), dtype, number)


def as_index(value: E, lo: int = 0, hi: int | Expr | None = None) -> int | Expr:
    """An integer value as an index expression: a "value" Var whose payload is the expression."""
    if value.op == "index":
        return value.meta
    if value.op == "const":
        return int(value.meta[0])
    return Var(f"v{id(value):x}", lo, hi, "value", value)


def check_index(value: E, size: int | Expr, site: int) -> E:
    """value if 0 <= value < size, else 0 with the status word set to `site` (an error code).

    meta = (size, site). The launch fails after it returns; no out-of-range read ever happens.
    """
    return make("check_index", (value,), value.dtype, (size, site))


def _binary(op: str) -> Any:
    def build(a: Any, b: Any) -> E:
        a, b = (_lift(a, b), b) if not isinstance(a, E) else (a, _lift(b, a))
        if a.dtype is not b.dtype:
            raise TypeError(f"scalar {op}: {a.dtype.name} with {b.dtype.name}")
        return make(op, (a, b), a.dtype)

    build.__name__ = op
    return build


def _compare(op: str) -> Any:
    def build(a: Any, b: Any) -> E:
        a, b = (_lift(a, b), b) if not isinstance(a, E) else (a, _lift(b, a))
        if a.dtype is not b.dtype:
            raise TypeError(f"scalar {op}: {a.dtype.name} with {b.dtype.name}")
        return make(op, (a, b), bool_)

    build.__name__ = op
    return build


def _unary(op: str) -> Any:
    def build(a: E) -> E:
        return make(op, (a,), a.dtype)

    build.__name__ = op
    return build


add, sub, mul, div, idiv, irem = map(_binary, ("add", "sub", "mul", "div", "idiv", "irem"))
bit_and, bit_or, bit_xor = map(_binary, ("and", "or", "xor"))
shl, shr = map(_binary, ("shl", "shr"))
lt, le, gt, ge, eq, ne = map(_compare, ("lt", "le", "gt", "ge", "eq", "ne"))
neg, abs_, sqrt, floor, ceil, trunc, rint = map(
    _unary, ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint")
)
bit_not = _unary("not")
pow_, atan2 = map(_binary, MATH_BINARY)


def math(name: str, x: E) -> E:
    """A math function of one argument by name (see MATH_UNARY)."""
    assert name in MATH_UNARY, name
    return make(name, (x,), x.dtype)


def exp(x: E) -> E:
    return math("exp", x)


def log(x: E) -> E:
    return math("log", x)


def fma(a: E, b: E | float, c: E | float) -> E:
    """a * b + c with one rounding."""
    return make("fma", (a, _lift(b, a), _lift(c, a)), a.dtype)


def select(condition: E, a: Any, b: Any) -> E:
    a, b = (_lift(a, b), b) if not isinstance(a, E) else (a, _lift(b, a))
    return make("select", (condition, a, b), a.dtype)


def cast(x: E, dtype: DType) -> E:
    """Convert a value. float -> int truncates; NaN and out of range give the least int (x86's)."""
    if x.dtype is dtype:
        return x
    if x.dtype.name in CONVERSIONS:
        return cast(CONVERSIONS[x.dtype.name][0](x), dtype)
    if dtype.name in CONVERSIONS:
        return CONVERSIONS[dtype.name][1](x, dtype)
    return make("cast", (x,), dtype)


def bitcast(x: E, dtype: DType) -> E:
    assert x.dtype.itemsize == dtype.itemsize
    return x if x.dtype is dtype else make("bitcast", (x,), dtype)


def is_nan(x: E) -> E:
    return ne(x, x)


def maximum(a: E, b: Any) -> E:
    """NaN if either is; of two equal values the second (so max(+0, -0) is -0)."""
    b = _lift(b, a)
    greater = gt(a, b)
    return select(greater | is_nan(a) if a.dtype.is_floating_point else greater, a, b)


def minimum(a: E, b: Any) -> E:
    b = _lift(b, a)
    less = lt(a, b)
    return select(less | is_nan(a) if a.dtype.is_floating_point else less, a, b)


def topological(roots: list[E] | tuple[E, ...]) -> list[E]:
    """All expressions below the roots, arguments first. Enters value Vars in indices."""
    order: list[E] = []
    seen: set[E] = set()
    stack: list[tuple[E, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        stack.extend((a, False) for a in reversed(children(node)) if a not in seen)
    return order


def children(node: E) -> tuple[E, ...]:
    """args, and the expressions inside the index of a load or an `index` leaf."""
    if node.op in ("load", "local"):
        return (*node.args, *index_values(node.meta[1]))
    if node.op == "index":
        return index_values(node.meta)
    return node.args


def index_values(at: int | Expr) -> tuple[E, ...]:
    if not isinstance(at, Expr):
        return ()
    return tuple([v.payload for v in variables(at).values() if v.kind == "value"])  # type: ignore[misc]


def to_text(node: E) -> str:
    """One-line form; shared parts are printed again (for people; see tile/text for round trips)."""
    if node.op == "const":
        return f"{node.meta[0]!r}:{node.dtype.name}"
    if node.op == "param":
        return f"${node.meta}"
    if node.op == "index":
        return f"#{node.meta!r}"
    if node.op in ("load", "local"):
        masked = "".join(f", {to_text(a)}" for a in node.args)
        return f"{node.meta[0].name}[{node.meta[1]!r}{masked}]"
    inner = ", ".join(to_text(a) for a in node.args)
    suffix = f":{node.dtype.name}" if node.op in ("cast", "bitcast") else ""
    return f"{node.op}({inner}){suffix}"
