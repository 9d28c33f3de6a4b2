"""Products of bfloat16 pairs: the same chains as without the instruction, bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rushlight.backends.llvm.build import lower
from rushlight.backends.llvm.caps import find_caps, split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.jit import assembly_of
from rushlight.base.dtypes import bfloat16, float16, float32, int8, int32
from rushlight.ir.scalar import acc, cast
from rushlight.ir.symint import Var
from tests.unit.backends.dot_cases import (
    OTHER_SCHEDULES,
    Case,
    inputs,
    matmul,
    result_of,
    same_bits,
)

HERE = find_caps("", 2)
WITHOUT = find_caps("-avx512bf16", 2)
HAS_WORDS = split_target(HERE.features).bfloat16_words
needs_words = pytest.mark.skipif(not HAS_WORDS, reason="this CPU does not multiply pairs")


def in_bfloat16(*sizes, out=float32, **layout):
    return matmul(*sizes, dtype=bfloat16, out=out, **layout)


@needs_words
@pytest.mark.parametrize("layout", [{}, {"ta": True}, {"tb": True}, {"ta": True, "tb": True}])
@pytest.mark.parametrize(
    "sizes", [(1, 40, 50, 64), (2, 17, 33, 6), (1, 64, 16, 1026), (2, 21, 35, 7), (1, 20, 20, 1)]
)
def test_same_bits_as_single_products(sizes, layout):
    case = in_bfloat16(*sizes, **layout)
    arrays = inputs(case)
    expected = result_of(case, WITHOUT, arrays=arrays)
    assert same_bits(result_of(case, HERE, arrays=arrays), expected)
    for schedule in OTHER_SCHEDULES:
        assert same_bits(result_of(case, HERE, schedule, arrays=arrays), expected)


@needs_words
def test_infinities_and_nans_go_through():
    case = in_bfloat16(1, 20, 20, 32)
    left, right, out = inputs(case)
    left[5], left[40], right[7] = np.inf, np.nan, -np.inf
    arrays = [left, right, out]
    with np.errstate(invalid="ignore"):
        expected = result_of(case, WITHOUT, arrays=arrays)
    np.testing.assert_array_equal(result_of(case, HERE, arrays=arrays), expected)


@needs_words
def test_rounding_to_the_result_is_the_same():
    case = in_bfloat16(1, 30, 48, 128, out=bfloat16)
    arrays = inputs(case)
    assert same_bits(result_of(case, HERE, arrays=arrays), result_of(case, WITHOUT, arrays=arrays))


@pytest.mark.parametrize(
    ("case", "paired"),
    [
        (in_bfloat16(1, 64, 64, 64), True),
        (in_bfloat16(1, 64, 64, 2 * Var("K", 1)), True),
        (in_bfloat16(1, 64, 64, 63), True),  # half a pair is left
        (in_bfloat16(1, 64, 64, Var("K", 1)), True),
        (in_bfloat16(1, 1, 64, 64), False),  # a matrix times a vector is read in place
        (matmul(1, 64, 64, 64, dtype=float16), False),
        (matmul(1, 64, 64, 64), False),
    ],
)
def test_which_products_are_of_pairs(case, paired):
    """The code is made for a CPU that has them, whatever this one is."""
    target = split_target(find_caps("+avx512bf16", 2).features)
    _, schedule = plan_dot(case.grid, target, 2)
    assert getattr(schedule, "words", False) == (paired and target.avx512)


def test_the_inner_loop_multiplies_pairs():
    caps = find_caps("+avx512bf16", 2)
    if not split_target(caps.features).avx512:
        pytest.skip("LLVM makes pairs for AVX-512 alone")
    module, _ = lower([in_bfloat16(1, 256, 256, 256).program], caps)
    text = assembly_of(str(module), split_target(caps.features))
    micro = text[text.index("\nmicro_words") :]
    assert micro.count("vdpbf16ps") >= 16
    assert "vfmadd" not in micro[: micro.index(".Lfunc_end")]


def in_int8(*sizes, **layout):
    """Summed in int32, both sides cast to it."""
    case = matmul(*sizes, dtype=int8, out=int32, **layout)
    wide = {"a": cast(case.grid.a, int32), "b": cast(case.grid.b, int32), "acc_dtype": int32}
    store = replace(case.grid.stores[0], value=acc(int32))
    grid = replace(case.grid, **wide, stores=(store,))
    return Case(replace(case.program, grids=(grid,)), grid)


@pytest.mark.parametrize("features", ["", "-avx512vnni", "+emulated-amx", "-avx512f"])
@pytest.mark.parametrize("layout", [{}, {"ta": True}, {"tb": True}], ids=str)
@pytest.mark.parametrize(
    "sizes", [(1, 40, 50, 64), (2, 17, 33, 7), (1, 2, 70, 130), (1, 90, 80, 2100)], ids=str
)
def test_whole_numbers_of_a_byte_are_summed_exactly(sizes, layout, features):
    case = in_int8(*sizes, **layout)
    batch, m, n, k = sizes
    a, b, out = inputs(case)
    got = result_of(case, find_caps(features, 2), arrays=[a, b, out]).reshape(batch, m, n)
    a = a.reshape(batch, k, m).swapaxes(1, 2) if "ta" in layout else a.reshape(batch, m, k)
    b = b.reshape(batch, n, k).swapaxes(1, 2) if "tb" in layout else b.reshape(batch, k, n)
    np.testing.assert_array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


def test_whole_numbers_of_a_byte_are_multiplied_by_four():
    caps = find_caps("+avx512vnni", 2)
    if not split_target(caps.features).avx512:
        pytest.skip("words are multiplied in vectors of AVX-512")
    module, _ = lower([in_int8(1, 256, 256, 256).program], caps)
    text = assembly_of(str(module), split_target(caps.features))
    micro = text[text.index("\nmicro_words_int32") :]
    micro = micro[: micro.index(".Lfunc_end")]
    assert micro.count("vpdpbusd") >= 16 and "rsp" not in micro
