"""The greatest common divisor and the least common multiple, element by element.

Binary: halve what is even, else subtract the smaller from the larger and halve. Every step takes
a bit off one of the two, so twice the number of bits is always enough: no loop, no division.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import find_dtype
from rushlight.ir import scalar as s
from rushlight.ir.opdef import Arg, NotDifferentiable, op
from rushlight.ops import samples
from rushlight.ops.binary import eq, floor_divide, mul
from rushlight.ops.composite import composite
from rushlight.ops.rules import elementwise_shape, whole_dtype
from rushlight.ops.select import where
from rushlight.ops.unary import abs_, torch_names

WHOLE = NotDifferentiable("the operands are whole numbers")


def scalar_gcd(x: s.E, y: s.E) -> s.E:
    """`unit` is the lowest bit set in either: odd means having it, so nothing is shifted back."""
    given, bits = x.dtype, 8 * x.dtype.itemsize
    dtype = find_dtype(f"uint{bits}")
    zero, one = s.const(0, dtype), s.const(1, dtype)
    if given.kind == "int":  # unsigned: the lowest number has a size, too
        x, y = s.bitcast(s.abs_(x), dtype), s.bitcast(s.abs_(y), dtype)
    either = s.bit_or(x, y)
    unit = s.bit_and(either, s.sub(zero, either))
    swap = s.eq(s.bit_and(x, unit), zero)
    odd, rest = s.select(swap, y, x), s.select(swap, x, y)
    for _ in range(2 * bits):
        even = s.eq(s.bit_and(rest, unit), zero)
        larger = s.bit_and(s.bit_not(even), s.gt(odd, rest))
        taken = s.select(even, zero, s.select(larger, rest, odd))
        left = s.sub(s.select(larger, odd, rest), taken)
        odd = s.select(larger, rest, odd)
        rest = s.shr(left, one)
    return s.bitcast(odd, given)


gcd = op(
    name="gcd",
    doc="The greatest common divisor; gcd(0, 0) is 0.",
    inputs=(Arg("x"), Arg("y")),
    shape=elementwise_shape,
    dtype=whole_dtype,
    scalar=scalar_gcd,
    reference=np.gcd,
    grad=WHOLE,
    torch=torch_names("gcd"),
    samples=samples.binary_int(),
)


def lcm_decompose(x: Any, y: Any) -> Any:
    divisor = gcd(x, y)
    return abs_(mul(floor_divide(x, where(eq(divisor, 0), 1, divisor)), y))


lcm = composite(
    "lcm",
    "The least common multiple; 0 where an operand is 0.",
    (Arg("x"), Arg("y")),
    lcm_decompose,
    np.lcm,
    WHOLE,
    dtype=whole_dtype,
    compute_f32=False,
    torch=torch_names("lcm"),
    samples=samples.binary_int(),
)
