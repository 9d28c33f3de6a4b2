"""Contractions of the llvm backend: exact chains, equal bits for every schedule and target."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from rushlight.backends.llvm.build import build, lower
from rushlight.backends.llvm.schedule import DotSchedule, ThinSchedule
from rushlight.base.dtypes import bfloat16, bool_, float16, float32, float64, int32, int64, uint8
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program, Store
from rushlight.ir.scalar import (
    acc,
    as_index,
    check_index,
    const,
    gt,
    load,
    maximum,
    select,
)
from rushlight.ir.symint import Var
from tests.unit.backends.dot_cases import (
    AVX2,
    AVX512,
    GENERIC,
    OTHER_SCHEDULES,
    TARGETS,
    compile_case,
    inputs,
    matmul,
    result_of,
    same_bits,
)
from tests.unit.backends.llvm_run import run


def chain(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The exact meaning: fused multiply-adds over ascending k (float32 by rationals)."""
    m, k = left.shape
    result = np.zeros((m, right.shape[1]), left.dtype)
    for i, j in itertools.product(range(m), range(right.shape[1])):
        total = left.dtype.type(0)
        for p in range(k):
            exact = Fraction(float(left[i, p])) * Fraction(float(right[p, j])) + Fraction(
                float(total)
            )
            total = nearest(exact, left.dtype.type)
        result[i, j] = total
    return result


def nearest(exact: Fraction, kind):
    """The float of `kind` nearest to a rational, ties to even (float() may round twice)."""
    if exact == 0:
        return kind(0)
    close = kind(float(exact))
    around = (np.nextafter(close, kind(-np.inf)), close, np.nextafter(close, kind(np.inf)))
    view = np.uint32 if kind is np.float32 else np.uint64
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(view)) & 1))


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("target", TARGETS)
def test_equals_the_chain_of_fused_multiply_adds(dtype, target):
    case = matmul(1, 5, 7, 23, dtype=dtype)
    left, right, _ = inputs(case)
    expected = chain(left.reshape(5, 23), right.reshape(23, 7))
    got = result_of(case, TARGETS[target])
    assert same_bits(got, expected.ravel())


SHAPES = [
    (1, 7, 5, 3),
    (1, 1, 1, 1),
    (2, 1, 70, 37),
    (1, 3, 33, 50),
    (3, 15, 47, 19),
    (1, 33, 100, 65),
    (2, 40, 16, 130),
    (1, 200, 3, 9),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("swapped", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_shapes_layouts_and_schedules_give_equal_bits(shape, swapped):
    case = matmul(*shape, *swapped)
    arrays = inputs(case)
    batch, m, n, k = shape
    left = arrays[0].reshape((batch, k, m) if swapped[0] else (batch, m, k))
    right = arrays[1].reshape((batch, n, k) if swapped[1] else (batch, k, n))
    left = left.swapaxes(1, 2) if swapped[0] else left
    right = right.swapaxes(1, 2) if swapped[1] else right
    got = result_of(case, arrays=arrays)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(got.reshape(batch, m, n), exact, rtol=2e-5, atol=1e-4)
    for schedule in OTHER_SCHEDULES:
        assert same_bits(got, result_of(case, schedule=schedule, arrays=arrays)), schedule
    if m <= 4:
        for along in (False, True):
            thin = ThinSchedule(16, 32, 3, along, along)
            assert same_bits(got, result_of(case, schedule=thin, arrays=arrays))


@pytest.mark.parametrize("shape", [(2, 5, 70, 37), (1, 33, 47, 65), (1, 1, 40, 50)], ids=str)
@pytest.mark.parametrize("swapped", [(0, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, float16])
def test_targets_give_equal_bits(shape, swapped, dtype):
    case = matmul(*shape, *swapped, dtype=dtype)
    arrays = inputs(case)
    first = result_of(case, AVX512, arrays=arrays)
    assert np.isfinite(first.astype(np.float64)).all() and np.any(first)
    assert same_bits(first, result_of(case, AVX2, arrays=arrays))
    assert same_bits(first, result_of(case, GENERIC, arrays=arrays))


@pytest.mark.parametrize("shape", [(2, 1, 40, 20), (1, 33, 47, 600), (2, 31, 5, 3)], ids=str)
def test_symbolic_sizes_give_the_bits_of_static_ones(shape):
    names = [Var(name, 0) for name in ("B", "M", "N", "K")]
    symbolic, sizes = matmul(*names, tb=True), dict(zip("BMNK", shape, strict=True))
    static = matmul(*shape, tb=True)
    arrays = inputs(static)
    expected = result_of(static, arrays=arrays)
    executable = compile_case(symbolic)
    given = [a.copy() for a in arrays]
    assert run(executable, given, sizes) == 0
    assert same_bits(given[-1], expected)
    # A size of its own kind each: only k, only m, only n symbolic.
    for place in range(1, 4):
        mixed = [names[i] if i == place else e for i, e in enumerate(shape)]
        case = matmul(*mixed, tb=True)
        got = result_of(case, arrays=arrays, sizes={"BMNK"[place]: shape[place]})
        assert same_bits(got, expected)


@pytest.mark.parametrize("split", [2, 3, 7])
def test_instances_in_any_split_give_equal_bits(split):
    case = matmul(2, 50, 70, 40)
    schedule = DotSchedule(5, 2, 16, 10, 32, 16, True, False)
    arrays = inputs(case)
    one = result_of(case, schedule=schedule, arrays=arrays)
    assert same_bits(one, result_of(case, schedule=schedule, arrays=arrays, split=split))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("m", [2, 6])
def test_no_terms_give_zero_and_the_epilogue_runs(symbolic, m):
    k = Var("K", 0) if symbolic else 0
    case = matmul(1, m, 5, k, epilogue=lambda v: v + 3.0)
    arrays = [np.zeros(1, np.float32), np.zeros(1, np.float32), np.full(m * 5, np.nan, np.float32)]
    got = result_of(case, arrays=arrays, sizes={"K": 0})
    assert (got == 3.0).all()


@pytest.mark.parametrize("shape", [(1, 0, 5, 3), (1, 5, 0, 3), (0, 5, 5, 3)])
def test_no_outputs_write_nothing(shape):
    arrays = [np.ones(64, np.float32), np.ones(64, np.float32), np.full(4, 7, np.float32)]
    assert (result_of(matmul(*shape), arrays=arrays) == 7).all()


def test_negative_zero_and_nan_stay_in_their_row():
    case = matmul(1, 20, 40, 18)
    arrays = inputs(case)
    arrays[0].reshape(20, 18)[3] = np.nan
    arrays[0].reshape(20, 18)[4] = 0.0
    arrays[0].reshape(20, 18)[5] = np.inf
    got = result_of(case, arrays=arrays).reshape(20, 40)
    assert np.isnan(got[3]).all() and (got[4] == 0).all()
    assert not np.isfinite(got[5]).any() and np.isfinite(np.delete(got, (3, 5), 0)).all()


@pytest.mark.parametrize("dtype", [int32, int64, uint8])
def test_integers_wrap(dtype):
    case = matmul(2, 9, 37, 21, dtype=dtype)
    left, right, _ = arrays = inputs(case)
    expected = np.zeros((2, 9, 37), dtype.np)
    for p in range(21):
        with np.errstate(over="ignore"):
            row = left.reshape(2, 9, 21)[:, :, p : p + 1]
            expected = expected + row * right.reshape(2, 21, 37)[:, p : p + 1]
    for caps in TARGETS.values():
        assert same_bits(result_of(case, caps, arrays=arrays), expected.astype(dtype.np).ravel())


def test_narrow_inputs_equal_their_float32_values():
    narrow, wide = matmul(1, 20, 40, 30, dtype=bfloat16), matmul(1, 20, 40, 30)
    arrays = inputs(narrow)
    cast_up = [a.astype(np.float32) for a in arrays]
    assert same_bits(result_of(narrow, arrays=arrays), result_of(wide, arrays=cast_up))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("m", [2, 20])
def test_prologue_and_epilogue_with_views(target, m):
    """relu(x[rows]) @ leaky(w, rows in reverse).T -> the sums, and transposed with a bias."""
    n, k, table = 37, 23, 9
    axes = [Axis("m", m), Axis("n", n), Axis("k", k)]
    i, j, p = (axis.var for axis in axes)
    x, rows = Buffer("x", float32, table * k), Buffer("rows", int64, m)
    w, bias = Buffer("w", float32, n * k), Buffer("bias", float32, n)
    plain, turned = Buffer("plain", float32, m * n, "out"), Buffer("turned", float32, n * m, "out")
    row = as_index(check_index(load(rows, i), table, 7), 0, table - 1)
    a = maximum(load(x, row * k + p), 0.0)
    b = load(w, (n - 1 - j) * k + p)
    b = select(gt(b, const(0.0, float32)), b, b * 0.5)
    total = acc(float32)
    stores = (
        Store(plain, i * n + j, total),
        Store(turned, j * m + i, total + load(bias, j)),
    )
    grid = DotGrid((), *axes, a, b, float32, stores)
    program = Program("view", (x, rows, w, bias, plain, turned), (), (), (grid,), ("",) * 8)
    random = np.random.default_rng(5)
    arrays = [
        random.standard_normal(table * k, np.float32),
        random.integers(0, table, m),
        random.standard_normal(n * k, np.float32),
        random.standard_normal(n, np.float32),
        np.zeros(m * n, np.float32),
        np.zeros(m * n, np.float32),
    ]
    left = np.maximum(arrays[0].reshape(table, k)[arrays[1]], 0)
    right = arrays[2].reshape(n, k)[::-1]
    right = np.where(right > 0, right, right * np.float32(0.5)).T
    expected = result_of(matmul(1, m, n, k), arrays=[left.ravel(), right.ravel(), arrays[4]])
    (executable,) = build([program], TARGETS[target])
    assert run(executable, arrays) == 0
    assert same_bits(arrays[4], expected)
    with_bias = expected.reshape(m, n) + arrays[3]
    assert same_bits(arrays[5].reshape(n, m), np.ascontiguousarray(with_bias.T))
    arrays[1][1] = table
    assert run(executable, arrays) == 7


def test_a_sum_of_bool_is_refused():
    case = matmul(1, 2, 2, 2)
    wrong = replace(case.grid, acc_dtype=bool_)
    program = replace(case.program, grids=(wrong,))
    with pytest.raises(TypeError, match="acc_dtype is bool; allowed are float32"):
        lower([program], AVX512)
