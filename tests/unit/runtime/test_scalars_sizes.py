"""Scalars as bits, and sizes as one function."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.base.dtypes import ALL_DTYPES, bfloat16, bool_, find_dtype, float16, float32
from rushlight.compiler.numbers import ScalarSlots, number_bits
from rushlight.compiler.size_functions import compile_ints
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv, maximum, minimum
from rushlight.ir.symint_walk import evaluate

SPECIAL = [0.0, -0.0, 1.5, -2.25, 0.1, 1e300, -1e300, 1e-320, float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, find_dtype("float64")])
@pytest.mark.filterwarnings("error")
def test_floats_are_rounded_and_may_overflow(dtype):
    bits = number_bits(SPECIAL, dtype)
    back = bits.view(np.uint64).astype(f"u{dtype.itemsize}").view(dtype.np)
    with np.errstate(all="ignore"):
        want = np.array(SPECIAL).astype(dtype.np)
    assert back.tobytes() == want.tobytes()
    assert (
        number_bits([10**400, -(10**400)], dtype).tolist()
        == number_bits([float("inf"), float("-inf")], dtype).tolist()
    )


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.kind in ("int", "uint")])
@given(value=st.integers(-(2**65), 2**65))
def test_ints_wrap_around(dtype, value):
    (bits,) = number_bits([value], dtype).view(np.uint64).tolist()
    assert bits == value % (1 << (8 * dtype.itemsize))
    assert number_bits([True, 3.9, False], dtype).tolist() == [1, 3, 0]


def test_bool_is_zero_or_one():
    assert number_bits([7, 0, True, 0.5], bool_).tolist() == [1, 0, 1, 1]


def test_one_number_in_several_dtypes_and_slots():
    slots = ScalarSlots()
    for position, (number, dtype) in enumerate(
        [(1, float32), (0, float32), (1, bfloat16), (1, float32), (0, find_dtype("int64"))]
    ):
        slots.add(position + 1, number, dtype)
    slots.freeze()
    words = np.full(7, -1, np.int64)
    slots.write(words, [-3, 0.1])
    f32 = struct.unpack("<I", struct.pack("<f", 0.1))[0]
    b16 = int(np.array(0.1, ml_dtypes.bfloat16).view(np.uint16))
    minus3 = struct.unpack("<I", struct.pack("<f", -3))[0]
    assert words.tolist() == [-1, f32, minus3, b16, f32, -3, -1]


@given(st.integers(0, 1000), st.integers(1, 50))
def test_compiled_sizes_equal_evaluate(n, m):
    a, b = Var("odd name!", lo=0), Var("b", lo=1)
    values = [a * b * 3 - a + 7, ceildiv(a, b), (a + 1) % b, minimum(a, b * 2), 5, a,
              maximum(a // 4, b) * b]  # fmt: skip
    env = {"odd name!": n, "b": m}
    got = compile_ints(values, ("b", "odd name!"))(m, n)
    assert list(got) == [evaluate(value, env) for value in values]
    assert compile_ints([], ())() == ()
