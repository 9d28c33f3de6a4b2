"""What the llvm backend makes of a contraction: folded batches, sides, schedules, code."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from rushlight.backends.llvm import dot_ahead
from rushlight.backends.llvm.batch import fold_into_columns, fold_shared_batch
from rushlight.backends.llvm.build import lower
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.jit import assembly_of
from rushlight.backends.llvm.orient import orient
from rushlight.backends.llvm.schedule import DotSchedule, ThinSchedule, choose_schedule
from rushlight.base.dtypes import float32, int64
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program, Store
from rushlight.ir.scalar import acc, cast, const, ge, index, load, lt
from rushlight.ir.symint import Var, floordiv, mod
from rushlight.ir.symint_walk import evaluate
from tests.unit.backends.dot_cases import (
    AVX2,
    AVX512,
    OTHER_SCHEDULES,
    TARGETS,
    Case,
    compile_case,
    inputs,
    matmul,
    result_of,
    same_bits,
)


def shared_weight(batch, heads, m, n, k, a_index) -> Case:
    """x[s, h, m, k] @ w[k, n] for all s and h."""
    axes = [Axis(x, e) for x, e in zip("shmnk", (batch, heads, m, n, k), strict=True)]
    s, h, i, j, p = (axis.var for axis in axes)
    x, w = Buffer("x", float32, batch * heads * m * k), Buffer("w", float32, k * n)
    out = Buffer("out", float32, batch * heads * m * n, "out")
    at = ((s * heads + h) * m + i) * n + j
    value = acc(float32) + cast(index(h), float32)
    a = load(x, a_index(s, h, i, p))
    grid = DotGrid(
        tuple(axes[:2]), *axes[2:], a, load(w, p * n + j), float32, (Store(out, at, value),)
    )
    sizes = tuple(e for e in (batch, heads, m, n, k) if isinstance(e, Var))
    return Case(Program("shared", (x, w, out), (), sizes, (grid,)), grid)


@pytest.mark.parametrize("order", ["shmk", "smhk", "kshm", "mkhs"])
@pytest.mark.parametrize("m", [1, 6])
def test_batch_axes_that_b_does_not_use_become_rows(order, m):
    extents = {"s": 3, "h": 4, "m": m, "k": 19}

    def place(s, h, i, p):
        at, by_name = 0, {"s": s, "h": h, "m": i, "k": p}
        for name in order:
            at = at * extents[name] + by_name[name]
        return at

    case = shared_weight(3, 4, m, 37, 19, place)
    arrays = inputs(case)
    x = arrays[0].reshape([extents[name] for name in order])
    x = x.transpose([order.index(name) for name in "shmk"])
    flat = np.ascontiguousarray(x).reshape(-1)
    plain = matmul(1, 12 * m, 37, 19)
    expected = result_of(plain, arrays=[flat, arrays[1], arrays[2]]).reshape(3, 4, m, 37)
    expected = expected + np.arange(4, dtype=np.float32)[:, None, None]
    for caps in (AVX512, AVX2):
        assert same_bits(result_of(case, caps, arrays=arrays), expected)
    folded = fold_shared_batch(case.grid)
    if order == "shmk":
        assert not folded.batch and folded.m.extent == 12 * m
        assert folded.a.meta[1] == folded.m.var * 19 + folded.k.var
    # Rows and k both with gaps: a stays as it is.
    assert order != "mkhs" or folded is case.grid


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("m", [1, 2, 50, Var("M", 0)], ids=str)
def test_sides_change_places_without_changing_bits(m, n):
    """Results in columns: out[n, m] = acc[m, n]; and few columns."""
    rows = m if isinstance(m, int) else 21
    case = matmul(1, m, n, 37)
    arrays = inputs(matmul(1, rows, n, 37))
    expected = result_of(
        case, schedule=OTHER_SCHEDULES[0], arrays=arrays, sizes={"M": rows}
    ).reshape(rows, n)
    assert same_bits(result_of(case, arrays=arrays, sizes={"M": rows}), expected)
    i, j = case.grid.m.var, case.grid.n.var
    store = replace(case.grid.stores[0], at=j * m + i)
    turned = Case(case.program, replace(case.grid, stores=(store,)))
    turned.program = replace(case.program, grids=(turned.grid,))
    got = result_of(turned, arrays=arrays, sizes={"M": rows})
    assert same_bits(got, np.ascontiguousarray(expected.T))
    oriented = orient(case.grid, 16)
    assert (oriented.n is case.grid.m) == (n <= 4 and (not isinstance(m, int) or m > n))
    if rows > 4 and n > 4:
        assert orient(turned.grid, 16).n is case.grid.m


def test_symbolic_batches_become_rows():
    batch, m = Var("B", 1), Var("M", 1)
    case = shared_weight(batch, 2, m, 5, 7, lambda s, h, i, p: ((s * 2 + h) * m + i) * 7 + p)
    static = shared_weight(3, 2, 4, 5, 7, lambda s, h, i, p: ((s * 2 + h) * 4 + i) * 7 + p)
    arrays = inputs(static)
    got = result_of(case, arrays=arrays, sizes={"B": 3, "M": 4})
    assert same_bits(got, result_of(static, arrays=arrays))
    assert not fold_shared_batch(case.grid).batch


@pytest.mark.parametrize("target", ["avx512", "avx2"])
@pytest.mark.parametrize("m", [256, 1000, 13])
def test_the_inner_loop_does_not_spill(target, m):
    caps = TARGETS[target]
    module, _ = lower([matmul(1, m, 512, 512).program], caps)
    text = assembly_of(str(module), split_target(caps.features))
    micro = text[text.index("\nmicro_") :]
    micro = micro[: micro.index(".Lfunc_end")]
    loops = re.findall(r"(\.LBB\d+_\d+):((?:(?!\.LBB\d+_\d+:).)*?j\w+\s+\1\b)", micro, re.DOTALL)
    assert loops, micro
    fused = [body for _, body in loops if "vfmadd" in body]
    assert fused and all("rsp" not in b and "rbp" not in b for b in fused)


def test_schedules_use_the_registers_and_serve_all_threads():
    big = choose_schedule(matmul(1, 1024, 1024, 1024).grid, split_target(AVX512.features), 2)
    assert isinstance(big, DotSchedule)
    assert 16 <= big.rows * big.vectors <= 28
    assert -(-1024 // big.mc) * -(-1024 // big.nc) >= 4
    assert big.mc * big.kc * 4 <= 640 << 10
    thin = choose_schedule(matmul(1, 1, 1024, 64).grid, split_target(AVX512.features), 2)
    assert isinstance(thin, ThinSchedule)


def test_as_many_long_equal_instances_as_threads_are_enough():
    """Each packs its operands for itself: halving them once more would pack a twice as often."""

    def instances(m: int, n: int, k: int, threads: int) -> int:
        s = choose_schedule(matmul(1, m, n, k).grid, split_target(AVX512.features), threads)
        assert isinstance(s, DotSchedule)
        return -(-m // s.mc) * -(-n // s.nc)

    assert instances(128, 512, 32000, 1) == 1
    assert instances(128, 512, 32000, 2) == 2
    assert instances(128, 512, 32000, 3) == 3
    assert instances(128, 512, 64, 2) >= 4  # short ones: a late thread would matter


def test_no_thread_has_much_more_to_do_than_the_others():
    """Seven equal instances would keep two threads busy for the time of eight."""
    for m, n, k in ((2048, 256, 1024), (2048, 256, 4096), (768, 256, 2048), (1300, 96, 700)):
        for threads in (2, 3, 4):
            s = choose_schedule(matmul(1, m, n, k).grid, split_target(AVX512.features), threads)
            assert isinstance(s, DotSchedule)
            turns = -(-(-(-m // s.mc) * -(-n // s.nc)) // threads)
            assert turns * s.mc * s.nc <= 1.15 * m * n / threads, (m, n, k, threads, s)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("k", [64, 2048])
def test_sizes_known_at_a_run_are_shared_out_as_well(threads, k):
    """Blocks lie within the memory that the code has for them, and serve all threads."""
    m, n = Var("M", 1), Var("N", 1)
    target = split_target(AVX512.features)
    s = choose_schedule(matmul(1, m, n, k).grid, target, threads)
    assert isinstance(s, DotSchedule)
    for rows in (1, 14, 15, 255, 256, 257, 700, 1024, 4096):
        for columns in (33, 256, 512, 513, 1030):
            env = {"M": rows, "N": columns}
            counts = [evaluate(count, env) for count in s.blocks(m, n)]
            units = -(-rows // s.rows), -(-columns // s.columns)
            most = [-(-unit // count) for unit, count in zip(units, counts, strict=True)]
            assert most[0] * s.rows <= s.mc and most[1] * s.columns <= s.nc, (env, s)
            turns = -(-math.prod(counts) // threads)
            if rows >= 256 * threads and columns % 256 == 0:
                share = math.prod(units) / threads
                assert turns * math.prod(most) <= 1.2 * share, (env, s)


def test_programs_of_one_module_share_the_micro_kernel():
    cases = [matmul(1, 1024, n, 512) for n in (512, 1024, 2048)]
    module, _ = lower([case.program for case in cases], AVX512)
    defined = [f.name for f in module.functions if f.blocks]
    assert len([name for name in defined if name.startswith("micro_")]) == 1
    assert len(defined) == 4


def accumulating(m: int, n: int, k: int) -> Case:
    """old[m, n] + a[k, m]^T @ b[k, n], as for the gradient of a weight."""
    case = matmul(1, m, n, k, ta=True)
    left, right, result = case.program.buffers
    old = Buffer("old", float32, m * n)
    at = case.grid.m.var * n + case.grid.n.var
    store = Store(result, at, load(old, at) + acc(float32))
    grid = replace(case.grid, stores=(store,))
    program = replace(case.program, buffers=(left, right, old, result), grids=(grid,))
    return Case(program, grid)


@pytest.mark.parametrize("case", [
    matmul(1, 40, 96, 1100), matmul(1, 40, 96, 128, tb=True), accumulating(40, 96, 33),
], ids=["rows of b", "columns of b", "old values"])  # fmt: skip
def test_what_a_large_product_asks_for_ahead_changes_nothing(case, monkeypatch):
    def code() -> str:
        return str(lower([case.program], AVX512)[0])

    monkeypatch.setattr(dot_ahead, "WORTH_BYTES", 1 << 60)
    monkeypatch.setattr(dot_ahead, "PAIR_BYTES", 0)
    plain = result_of(case)
    assert "_ahead" not in code()
    monkeypatch.undo()
    monkeypatch.setattr(dot_ahead, "WORTH_BYTES", 0)
    assert "_ahead" in code()
    assert same_bits(result_of(case), plain)


def convolution(images, channels, side, filters) -> Case:
    """3 x 3 windows of zero-padded pictures: b is a masked load at divided indices."""
    axes = [
        Axis(name, extent)
        for name, extent in zip("bmnk", (images, filters, side * side, channels * 9), strict=True)
    ]
    b, i, j, p = (axis.var for axis in axes)
    x = Buffer("x", float32, images * channels * side * side)
    w = Buffer("w", float32, filters * channels * 9)
    y = Buffer("y", float32, images * filters * side * side, "out")
    row = floordiv(j, side) + mod(floordiv(p, 3), 3) - 1
    column = mod(j, side) + mod(p, 3) - 1
    zero, end = const(0, int64), const(side, int64)
    inside = ge(index(row), zero) & lt(index(row), end)
    inside = inside & ge(index(column), zero) & lt(index(column), end)
    at = ((b * channels + floordiv(p, 9)) * side + row) * side + column
    picture = load(x, at, inside, const(0.0, float32))
    store = Store(y, (b * filters + i) * side * side + j, acc(float32))
    grid = DotGrid((axes[0],), *axes[1:], load(w, i * channels * 9 + p), picture, float32, (store,))
    return Case(Program("conv", (x, w, y), (), (), (grid,)), grid)


@pytest.mark.parametrize("side", [4, 7, 8, 12, 16, 32])
@pytest.mark.parametrize("target", TARGETS)
def test_windows_are_packed_without_being_built(target, side):
    images, channels, filters = 3, 5, 9
    case = convolution(images, channels, side, filters)
    arrays = inputs(case)
    padded = np.pad(arrays[0].reshape(images, channels, side, side), ((0, 0),) * 2 + ((1, 1),) * 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (2, 3))
    windows = np.ascontiguousarray(windows).reshape(images, channels * 9, side * side)
    got = result_of(case, TARGETS[target], arrays=arrays).reshape(images, -1)
    for image in range(images):
        plain = matmul(1, filters, side * side, channels * 9)
        built = [arrays[1], windows[image].ravel(), np.zeros_like(got[image])]
        assert same_bits(got[image], result_of(plain, arrays=built))


@pytest.mark.parametrize("side", [4, 7, 8, 12, 16, 32])
@pytest.mark.parametrize("target", TARGETS)
def test_positions_of_all_images_are_one_chain(target, side):
    """The gradient of the filters: k runs over images and positions, and is read along memory."""
    images, channels, filters = 3, 2, 9
    case = filter_gradient(images, channels, side, filters)
    x, g, y = arrays = inputs(case)
    padded = np.pad(x.reshape(images, channels, side, side), ((0, 0),) * 2 + ((1, 1),) * 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (2, 3))
    windows = windows.transpose(0, 4, 5, 1, 2, 3).reshape(images * side**2, channels * 9)
    rows = g.reshape(images, filters, side**2).transpose(1, 0, 2)
    built = [np.ascontiguousarray(rows).ravel(), np.ascontiguousarray(windows).ravel(), y]
    expected = result_of(matmul(1, filters, channels * 9, images * side**2), arrays=built)
    assert same_bits(result_of(case, TARGETS[target], arrays=arrays), expected)
    for schedule in OTHER_SCHEDULES:
        assert same_bits(result_of(case, schedule=schedule, arrays=arrays), expected)


def filter_gradient(images, channels, side, filters) -> Case:
    axes = [
        Axis(name, extent)
        for name, extent in zip("bmnk", (1, filters, channels * 9, images * side**2), strict=True)
    ]
    _, i, j, p = (axis.var for axis in axes)
    x = Buffer("x", float32, images * channels * side**2)
    g = Buffer("g", float32, images * filters * side**2)
    y = Buffer("y", float32, filters * channels * 9, "out")
    image, place = floordiv(p, side**2), mod(p, side**2)
    row = floordiv(place, side) + mod(floordiv(j, 3), 3) - 1
    column = mod(p, side) + mod(j, 3) - 1
    zero, end = const(0, int64), const(side, int64)
    inside = ge(index(row), zero) & lt(index(row), end)
    inside = inside & ge(index(column), zero) & lt(index(column), end)
    at = ((image * channels + floordiv(j, 9)) * side + row) * side + column
    picture = load(x, at, inside, const(0.0, float32))
    a = load(g, (image * filters + i) * side**2 + side * floordiv(place, side) + mod(p, side))
    store = Store(y, i * channels * 9 + j, acc(float32))
    grid = DotGrid((axes[0],), *axes[1:], a, picture, float32, (store,))
    return Case(Program("filters", (x, g, y), (), (), (grid,)), grid)


@pytest.mark.parametrize(("side", "folds"), [(4, True), (16, True), (7, True), (2, False)])
def test_images_become_columns(side, folds):
    """Each begins with a vector of its own; a few columns alone would leave most of it empty."""
    grid = fold_into_columns(convolution(3, 5, side, 9).grid, 16)
    assert (not grid.batch) == folds
    assert not folds or grid.n.extent == 3 * -(-(side**2) // 16) * 16
    assert fold_into_columns(matmul(3, 5, 16, 7).grid, 16).batch  # a is of the batch, too


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [9, 32, 49])
def test_shared_left_side_with_a_residual(target, width):
    """out[s, i, j] = w[i] @ x[s, :, j] + r[s, i, j] + c[j]: only columns that exist are touched."""
    batch, m, k = 5, 23, 18
    axes = [Axis(x, e) for x, e in zip("smnk", (batch, m, width, k), strict=True)]
    b, i, j, p = (axis.var for axis in axes)
    w, x = Buffer("w", float32, m * k), Buffer("x", float32, batch * k * width)
    r, c = Buffer("r", float32, batch * m * width), Buffer("c", float32, width)
    out = Buffer("out", float32, batch * m * width, "out")
    at = (b * m + i) * width + j
    store = Store(out, at, acc(float32) + load(r, at) + load(c, j))
    right = load(x, (b * k + p) * width + j)
    grid = DotGrid((axes[0],), *axes[1:], load(w, i * k + p), right, float32, (store,))
    case = Case(Program("shared", (w, x, r, c, out), (), (), (grid,)), grid)
    arrays = inputs(case)
    plain = matmul(batch, m, width, k)
    wide = np.ascontiguousarray(np.broadcast_to(arrays[0].reshape(1, m, k), (batch, m, k))).ravel()
    sums = result_of(plain, arrays=[wide, arrays[1], arrays[4]])
    expected = sums + arrays[2] + np.tile(arrays[3], batch * m)
    assert same_bits(result_of(case, TARGETS[target], arrays=arrays), expected)
    for schedule in OTHER_SCHEDULES:
        assert same_bits(result_of(case, schedule=schedule, arrays=arrays), expected)


def test_divisions_of_the_lanes_stay_out_of_the_loop_over_k():
    """One vector division by the side per vector of columns, not per k: they are 16 scalar ones."""
    text = str(lower([convolution(1, 8, 56, 64).program], AVX512)[0])
    blocks = re.split(r"\n(?=\S+:\s*(?:;.*)?\n)", text)
    loading = [block for block in blocks if "masked.load" in block]
    assert loading
    assert all("sdiv <" not in block and "srem <" not in block for block in loading)


def test_small_instances_share_a_unit_of_work_and_large_ones_do_not():
    def grain(*shape) -> int:
        (launch,) = compile_case(matmul(*shape)).launches
        return launch.grain

    assert grain(1, 1024, 1024, 256) == 1
    assert grain(4096, 8, 8, 8) >= 64
    assert grain(64, 1, 64, Var("K", 0)) <= 16
