"""Arithmetic of complex numbers as pairs of real nodes: the `pair` rules of records.

In: a `Pair` (re, im) for each complex operand, a Node for each real one. Out: a Pair, or a Node
where the result is real. Only primitives are used. A part that is the constant 0 is left out of
products, so that a complex value times a real constant costs two products and not four.
Transcendental functions are in complex_math.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.base.dtypes import DType, bool_
from rushlight.ir.node import Node, const_node
from rushlight.ops.late import late


class Pair(NamedTuple):
    """re + i * im; two real nodes of one dtype, whose shapes broadcast."""

    re: Any
    im: Any


def is_zero(x: Node) -> bool:
    """The constant 0, however it is spread."""
    while x.name in ("expand", "reshape"):
        x = x.src[0]
    return x.leaf == "const" and x.attrs[0] == 0


def zero_like(x: Node) -> Node:
    return const_node(0, x.dtype)


def by_parts(rule: Callable[..., Node]) -> Callable[..., Pair]:
    """A linear op of one operand: each part for itself, of zeros zero."""

    def part_of(x: Node, **attrs: Any) -> Node:
        return zero_like(x) if is_zero(x) else rule(x, **attrs)

    return lambda x, **attrs: Pair(part_of(x.re, **attrs), part_of(x.im, **attrs))


def _sum(a: Node, b: Node) -> Node:
    return b if is_zero(a) else a if is_zero(b) else late.add(a, b)


def _difference(a: Node, b: Node) -> Node:
    return late.neg(b) if is_zero(a) else a if is_zero(b) else late.sub(a, b)


def _product(a: Node, b: Node) -> Node:
    return a if is_zero(a) else b if is_zero(b) else late.mul(a, b)


def add(x: Pair, y: Pair) -> Pair:
    return Pair(_sum(x.re, y.re), _sum(x.im, y.im))


def sub(x: Pair, y: Pair) -> Pair:
    return Pair(_difference(x.re, y.re), _difference(x.im, y.im))


def neg(x: Pair) -> Pair:
    return Pair(late.neg(x.re), x.im if is_zero(x.im) else late.neg(x.im))


def conj(x: Pair) -> Pair:
    return Pair(x.re, x.im if is_zero(x.im) else late.neg(x.im))


def mul(x: Pair, y: Pair) -> Pair:
    return Pair(
        _difference(_product(x.re, y.re), _product(x.im, y.im)),
        _sum(_product(x.re, y.im), _product(x.im, y.re)),
    )


def scale(x: Pair, factor: Any) -> Pair:
    """By a real number or node."""
    return Pair(late.mul(x.re, factor), late.mul(x.im, factor))


def times_i(x: Pair) -> Pair:
    return Pair(late.neg(x.im), x.re)


def over_i(x: Pair) -> Pair:
    return Pair(x.im, late.neg(x.re))


def div(x: Pair, y: Pair) -> Pair:
    """Smith's way: by the larger part first, so that nothing overflows on the way."""
    if is_zero(y.im):
        return Pair(late.div(x.re, y.re), x.im if is_zero(x.im) else late.div(x.im, y.re))
    by_re = late.ge(late.abs(y.re), late.abs(y.im))
    large, small = late.where(by_re, y.re, y.im), late.where(by_re, y.im, y.re)
    zero = late.eq(large, 0.0)
    ratio = late.where(zero, 0.0, late.div(small, large))
    share = late.reciprocal(late.add(large, late.mul(small, ratio)))
    first, second = late.where(by_re, x.re, x.im), late.where(by_re, x.im, x.re)
    re = late.mul(late.add(first, late.mul(second, ratio)), share)
    im = late.mul(late.sub(second, late.mul(first, ratio)), share)
    return Pair(re, late.where(by_re, im, late.neg(im)))


def reciprocal(x: Pair) -> Pair:
    return div(Pair(const_node(1, x.re.dtype), zero_like(x.re)), x)


def absolute(x: Pair) -> Node:
    """Without overflow: the larger part times sqrt(1 + ratio**2)."""
    large, ratio = size_parts(x)
    size = late.mul(large, late.sqrt(late.add(late.mul(ratio, ratio), 1.0)))
    return late.where(isinf(x), float("inf"), size)


def size_parts(x: Pair) -> tuple[Node, Node]:
    """The larger |part| and the ratio of the smaller to it (0 where the larger is 0 or inf)."""
    a, b = late.abs(x.re), late.abs(x.im)
    large, small = late.maximum(a, b), late.minimum(a, b)
    plain = late.logical_or(late.eq(large, 0.0), late.isinf(large))
    return large, late.where(plain, 0.0, late.div(small, late.where(plain, 1.0, large)))


def sgn(x: Pair) -> Pair:
    """x / |x|, 0 where x is 0."""
    size = absolute(x)
    zero = late.eq(size, 0.0)
    safe = late.where(zero, 1.0, size)
    re, im = (late.where(zero, 0.0, late.div(part, safe)) for part in x)
    return Pair(re, im)


def angle(x: Pair) -> Node:
    return late.atan2(x.im, x.re)


def eq(x: Pair, y: Pair) -> Node:
    return late.logical_and(late.eq(x.re, y.re), late.eq(x.im, y.im))


def ne(x: Pair, y: Pair) -> Node:
    return late.logical_or(late.ne(x.re, y.re), late.ne(x.im, y.im))


def truth(x: Any) -> Node:
    """Not 0."""
    if not isinstance(x, Pair):
        return x
    return late.logical_or(late.ne(x.re, 0.0), late.ne(x.im, 0.0))


def logic(name: str) -> Callable[..., Node]:
    """A logical op of the truth of its operands."""
    return lambda *operands: getattr(late, name)(*map(truth, operands))


def isnan(x: Pair) -> Node:
    return late.logical_or(late.isnan(x.re), late.isnan(x.im))


def isinf(x: Pair) -> Node:
    return late.logical_or(late.isinf(x.re), late.isinf(x.im))


def isfinite(x: Pair) -> Node:
    return late.logical_and(late.isfinite(x.re), late.isfinite(x.im))


def where(condition: Node, x: Pair, y: Pair) -> Pair:
    return Pair(late.where(condition, x.re, y.re), late.where(condition, x.im, y.im))


def cast(x: Any, dtype: DType) -> Any:
    """Real to complex: im is 0. Complex to real: re; to bool: not 0."""
    if not isinstance(x, Pair):
        return Pair(_cast(x, dtype.to_real()), const_node(0, dtype.to_real()))
    if dtype is bool_:
        return truth(x)
    if dtype.kind != "complex":
        return _cast(x.re, dtype)
    return Pair(_cast(x.re, dtype.to_real()), _cast(x.im, dtype.to_real()))


def _cast(x: Node, dtype: DType) -> Node:
    return x if x.dtype is dtype else late.cast(x, dtype)
