"""Products in tile registers, emulated: against float64, with a fixed order of sums."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from rushlight.backends.llvm import amx, tiles_here
from rushlight.backends.llvm.build import lower
from rushlight.backends.llvm.caps import find_caps, split_target
from rushlight.backends.llvm.dot import plan_dot
from rushlight.backends.llvm.jit import assembly_of
from rushlight.backends.llvm.schedule import ThinSchedule
from rushlight.backends.llvm.targets import caps_for, describe
from rushlight.backends.llvm.tile_ops import TileOps
from rushlight.backends.llvm.tiles_check import what_is_wrong
from rushlight.base.config import child_environment, config
from rushlight.base.dtypes import bfloat16, float16, float32
from rushlight.ir.scalar import const, lt, select
from rushlight.ir.symint import Var
from tests.unit.backends.dot_cases import compile_case, inputs, matmul, result_of, same_bits
from tests.unit.backends.llvm_run import run

TILES = find_caps("+emulated-amx", 2)
HERE = split_target(TILES.features).tiles == "emulated"
needs_avx512 = pytest.mark.skipif(not HERE, reason="the emulation is made of AVX-512's vectors")
LAYOUTS = [{}, {"ta": True}, {"tb": True}, {"ta": True, "tb": True}]
SIZES = [(1, 32, 32, 32), (1, 40, 50, 64), (2, 17, 33, 6), (1, 64, 16, 1026), (1, 33, 47, 63),
         (1, 100, 70, 1300), (3, 64, 64, 40), (1, 9, 20, 1)]  # fmt: skip
SAPPHIRE = (
    "flags : sse sse2 pni ssse3 sse4_1 sse4_2 avx avx2 fma f16c bmi1 bmi2 avx512f avx512vl "
    "avx512bw avx512dq avx512cd avx512_vnni avx512_bf16 amx_tile amx_bf16 amx_int8\n"
)


def in_bfloat16(*sizes, out=float32, **more):
    return matmul(*sizes, dtype=bfloat16, out=out, **more)


def operands(case, sizes, ta=False, tb=False):
    batch, m, n, k = sizes
    arrays = inputs(case)
    a, b = (x.astype(np.float32) for x in arrays[:2])
    a = a.reshape(batch, k, m).swapaxes(1, 2) if ta else a.reshape(batch, m, k)
    b = b.reshape(batch, n, k).swapaxes(1, 2) if tb else b.reshape(batch, k, n)
    return arrays, a, b


def in_tile_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The order of sums that tile_ops.py states, one rounding after another."""
    k = a.shape[-1]
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for start in range(0, k, 32):
        halves = []
        for first in (start, start + 1):
            part = np.zeros_like(total)
            for at in range(first, min(start + 32, k), 2):  # exact products, one rounding
                term = a[..., at, None].astype(np.float64) * b[..., at, None, :]
                part = (part.astype(np.float64) + term).astype(np.float32)
            halves.append(part)
        total += halves[0] + halves[1]
    return total


@needs_avx512
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_have_the_bits_of_the_stated_order(sizes, layout):
    case = in_bfloat16(*sizes, **layout)
    arrays, a, b = operands(case, sizes, **layout)
    got = result_of(case, TILES, arrays=arrays).reshape(sizes[0], sizes[1], sizes[2])
    exact = np.matmul(a.astype(np.float64), b)
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-6 * sizes[3] ** 0.5 * np.abs(a).max())
    # float64 is wide enough for all but a few double roundings.
    assert (got != in_tile_order(a, b)).mean() < 1e-3


@needs_avx512
@pytest.mark.parametrize("sizes", [(1, 70, 40, 1100), (2, 33, 65, 37)], ids=str)
def test_no_block_size_changes_a_bit(sizes):
    case = in_bfloat16(*sizes)
    _, chosen = plan_dot(case.grid, split_target(TILES.features), 2)
    arrays = inputs(case)
    expected = result_of(case, TILES, arrays=arrays)
    for rows, vectors, mc, nc, kc in (
        (16, 1, 16, 16, 16),
        (32, 2, 64, 32, 32),
        (32, 1, 32, 48, 512),
    ):
        other = replace(chosen, rows=rows, vectors=vectors, mc=mc, nc=nc, kc=kc)
        assert same_bits(result_of(case, TILES, other, arrays=arrays), expected)
    for split in (2, 3):
        assert same_bits(result_of(case, TILES, arrays=arrays, split=split), expected)


@needs_avx512
def test_sizes_that_vary_give_the_same_bits():
    sizes = {"M": 37, "N": 50, "K": 75}
    fixed = in_bfloat16(1, *sizes.values())
    varying = in_bfloat16(1, *(Var(name, 1) for name in sizes))
    arrays = inputs(fixed)
    expected = result_of(fixed, TILES, arrays=arrays)
    assert same_bits(result_of(varying, TILES, arrays=arrays, sizes=sizes), expected)


@needs_avx512
def test_infinities_stay_in_their_rows_and_columns():
    sizes = (1, 40, 40, 33)
    case = in_bfloat16(*sizes)
    left, right, out = inputs(case)
    left[5 * 33 + 2], right[3 * 40 + 7] = np.inf, np.nan
    got = result_of(case, TILES, arrays=[left, right, out]).reshape(40, 40)
    wrong = ~np.isfinite(got)
    assert wrong[5].all() and wrong[:, 7].all() and wrong.sum() == 40 + 39


@needs_avx512
def test_subnormal_numbers_count_as_zero():
    case = in_bfloat16(1, 32, 32, 2)
    left, right, out = inputs(case)
    left[:], right[:] = 1e-39, 1e30
    assert not result_of(case, TILES, arrays=[left, right, out]).any()


@needs_avx512
def test_an_epilogue_reads_the_finished_sums():
    """Twice the sum, not below 0, rounded to bfloat16."""

    def finish(value):
        zero = const(0, float32)
        return select(lt(value, zero), zero, value + value)

    sizes = (1, 50, 70, 90)
    case = in_bfloat16(*sizes, out=bfloat16, epilogue=finish)
    plain = in_bfloat16(*sizes)
    arrays = inputs(case)
    got = result_of(case, TILES, arrays=arrays).astype(np.float32)
    sums = result_of(plain, TILES, arrays=[*arrays[:2], np.zeros(50 * 70, np.float32)])
    want = np.maximum(2 * sums, 0).astype(arrays[0].dtype).astype(np.float32)
    np.testing.assert_array_equal(got, want)


def test_which_products_take_tiles():
    target = split_target(describe(SAPPHIRE))
    assert target.tiles == "amx"
    for case, expected in (
        (in_bfloat16(1, 64, 64, 64), True),
        (in_bfloat16(1, 64, 64, 63), True),
        (in_bfloat16(1, Var("M", 1), 64, 64), True),
        (in_bfloat16(1, 1, 64, 64), False),  # read in place
        (matmul(1, 64, 64, 64, dtype=float16), False),
        (matmul(1, 64, 64, 64), False),
    ):
        _, schedule = plan_dot(case.grid, target, 2)
        assert getattr(schedule, "tiles", False) == expected
    without = split_target(describe(SAPPHIRE.replace("amx_bf16", "")))
    assert without.tiles == "" and without.bfloat16_words


def test_the_code_for_a_sapphire_rapids():
    """Registers are configured first, multiplied in the inner loop, and released at the end."""
    caps = caps_for(describe(SAPPHIRE))
    module, _ = lower([in_bfloat16(1, 256, 256, 256).program], caps)
    text = assembly_of(str(module), split_target(caps.features))
    start = text.index("\nmicro_tiles")
    micro = text[start : text.index(".Lfunc_end", start)]
    kernel = next(f for f in text.split(".Lfunc_end") if "ldtilecfg" in f)
    assert micro.count("tdpbf16ps") == 4 and micro.count("tileloadd") == 4 + 4
    assert micro.count("tilezero") == micro.count("tilestored") == 4
    kernel = kernel[kernel.index("ldtilecfg") :]
    assert kernel.count("ldtilecfg") == kernel.count("tilerelease") == 1
    assert kernel.index("tilerelease") > kernel.rindex("callq\tmicro_tiles")


@needs_avx512
def test_a_kernel_that_configures_nothing_computes_nothing(monkeypatch):
    """The emulation shows it: registers without rows."""
    case = in_bfloat16(1, 32, 32, 32)
    arrays = inputs(case)
    monkeypatch.setattr(TileOps, "configure", lambda self, b: self.release(b))
    assert run(compile_case(case, TILES), arrays) == 0
    assert not same_bits(arrays[-1], result_of(case, TILES))


@needs_avx512
def test_the_known_product_finds_a_wrong_instruction(monkeypatch):
    target = split_target(TILES.features)
    assert what_is_wrong.__wrapped__(target) == ""
    right = TileOps.multiply
    monkeypatch.setattr(TileOps, "multiply", lambda self, b, n, c, x, y: right(self, b, n, c, x, 6))
    with config.override(cache=False):  # the right code is on disk
        assert "numbers of a bfloat16 product" in what_is_wrong.__wrapped__(target)


def test_registers_that_the_kernel_refuses_are_not_used(monkeypatch):
    features = "+amx-tile,+amx-bf16,+amx-int8"
    caps = find_caps(features, 2)
    if split_target(caps.features).tiles == "":
        pytest.skip("they go with AVX-512")
    monkeypatch.setattr(amx, "why_not", lambda: "no (errno 95)")
    assert tiles_here.why_not.__wrapped__(caps.features) == "no (errno 95)"
    used = split_target(tiles_here.with_usable_tiles.__wrapped__(caps).features)
    assert used.tiles == "" and used.bfloat16_words == split_target(caps.features).bfloat16_words


def test_registers_that_compute_wrongly_are_switched_off_with_a_warning(monkeypatch):
    caps = find_caps("+amx-tile,+amx-bf16,+amx-int8", 3)
    if split_target(caps.features).tiles == "":
        pytest.skip("they go with AVX-512")
    monkeypatch.setattr(amx, "why_not", lambda: "")
    monkeypatch.setattr(tiles_here, "what_is_wrong", lambda target: "7 of 9 numbers")
    monkeypatch.setattr(tiles_here, "why_not", tiles_here.why_not.__wrapped__)
    with pytest.warns(RuntimeWarning, match="are not used: 7 of 9 numbers"):
        used = tiles_here.with_usable_tiles.__wrapped__(caps)
    assert split_target(used.features).tiles == ""


@needs_avx512
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("k", [1, 31, 32, 100, 256])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_row_has_the_same_bits_alone_and_among_many(rows, k, layout):
    """Few rows are read in place, without tiles."""
    many = in_bfloat16(1, 40, 70, k, **layout)
    few = in_bfloat16(1, rows, 70, k, **layout)
    assert isinstance(plan_dot(few.grid, split_target(TILES.features), 2)[1], ThinSchedule)
    left, right, out = inputs(many)
    expected = result_of(many, TILES, arrays=[left, right, out]).reshape(40, 70)[:rows]
    part = left.reshape(k, 40)[:, :rows] if layout.get("ta") else left.reshape(40, k)[:rows]
    arrays = [np.ascontiguousarray(part).reshape(-1), right, out[: rows * 70].copy()]
    assert same_bits(result_of(few, TILES, arrays=arrays), expected)


def programs_with(threads: int, **settings: str) -> dict:
    environment = child_environment(
        RUSHLIGHT_NUM_THREADS=str(threads), RUSHLIGHT_CACHE="0", PYTHONPATH=os.getcwd(), **settings
    )
    command = [sys.executable, "-m", "tests.unit.backends.tile_programs"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def exactness(found: dict, tiles: bool) -> None:
    """What set_float32_matmul_precision changes: nothing without tiles, nothing recorded before."""
    assert found["highest"] < 1e-6
    assert 1e-4 < found["medium"] < 1e-2 if tiles else found["medium"] == found["highest"]
    assert 1e-6 < found["high"] < 3e-5 if tiles else found["high"] == found["highest"]
    for name in ("recorded_before", "medium_compiled", "medium_row", "high_compiled", "high_row",
                 "back"):  # fmt: skip
        assert found[name] == 0, name


@needs_avx512
def test_whole_programs_are_right_and_the_same_on_any_number_of_threads():
    """Odd sizes, batches, transposed operands, epilogues, gradients. bfloat16 has 8 bits."""
    one, two, three = (programs_with(n, RUSHLIGHT_CPU_FEATURES="+emulated-amx") for n in (1, 2, 3))
    assert one == two == three
    assert max(found["error"] for found in one.values()) < 2**-8
    assert one["one_of_many"]["error"] == 0
    exactness(one["precisions"], tiles=True)
    without = programs_with(1)
    exactness(without["precisions"], tiles=False)
    assert any(one[name]["digest"] != without[name]["digest"] for name in one)
