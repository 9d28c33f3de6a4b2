"""Attention: one meaning for every target, schedule and thread count, near the dense one."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.schedule_attention import (
    ThinAttention,
    choose_attention_schedule,
    wide_attention_schedule,
)
from rushlight.base.dtypes import float32, int64
from rushlight.compiler.tile.ir import AttentionGrid
from rushlight.compiler.tile.text import structural_key, to_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.compiler.tile.verify import InvalidProgram, verify_program
from rushlight.ir import scalar as s
from tests.unit.backends.attention_cases import bits_of, compiled, dense, make, tables_of
from tests.unit.backends.llvm_targets import caps_of, each_target

CASES = {
    "small": make((2,), (5, 7, 4, 3)),
    "odd": make((2, 3), (67, 131, 33, 17), "causal"),
    "more_queries": make((1,), (150, 70, 16, 16), "causal"),
    "more_keys": make((1,), (33, 200, 16, 40), "causal"),
    "wide": make((1,), (40, 70, 256, 250)),
    "one_query": make((4,), (1, 90, 64, 64)),
    "one_key": make((2,), (9, 1, 1, 1)),
    "no_keys": make((2,), (9, 0, 4, 4)),
    "no_queries": make((2,), (0, 9, 4, 4)),
    "no_features": make((2,), (9, 70, 0, 4)),
    "no_width": make((2,), (9, 70, 4, 0)),
    "no_batch": make((0,), (9, 70, 4, 4)),
    "bool": make((2,), (70, 100, 8, 24), "bool"),
    "add": make((2, 2), (70, 100, 8, 24), "add"),
    "keys": make((2,), (70, 100, 8, 24), "keys"),
    "blocks": make((2,), (300, 400, 8, 24), "blocks"),
    "float64": make((2,), (50, 100, 12, 9), "add", dtype=np.float64),
    "bfloat16": make((2,), (50, 100, 12, 9), "causal", dtype=ml_dtypes.bfloat16),
    "bfloat16_add": make((2,), (50, 100, 12, 9), "add", dtype=ml_dtypes.bfloat16),
    "float16": make((2,), (50, 100, 12, 9), "bool", dtype=np.float16),
    "swapped": make((2,), (50, 100, 12, 9), "add", swap=True),
    "few": make((2, 2), (5, 150, 33, 17), "bool"),
    "few_add": make((2,), (8, 200, 64, 80), "add"),
    "few_blocks": make((2,), (3, 400, 8, 24), "blocks"),
    "few_causal": make((2,), (7, 5, 16, 16), "causal"),
    "few_bfloat16": make((2,), (4, 70, 40, 20), "add", dtype=ml_dtypes.bfloat16),
    "few_float64": make((2,), (2, 70, 12, 9), "bool", dtype=np.float64),
    "few_swapped": make((2,), (2, 70, 12, 9), "bool", swap=True),
    "grad_small": make((2,), (5, 7, 4, 3), grad=True),
    "grad_odd": make((2, 3), (67, 131, 33, 17), "causal", grad=True),
    "grad_more_queries": make((1,), (150, 70, 16, 16), "causal", grad=True),
    "grad_wide": make((1,), (40, 70, 256, 250), grad=True),
    "grad_one_key": make((2,), (9, 1, 1, 1), grad=True),
    "grad_no_keys": make((2,), (9, 0, 4, 4), grad=True),
    "grad_no_queries": make((2,), (0, 9, 4, 4), grad=True),
    "grad_no_features": make((2,), (9, 70, 0, 4), grad=True),
    "grad_no_width": make((2,), (9, 70, 4, 0), grad=True),
    "grad_bool": make((2,), (70, 100, 8, 24), "bool", grad=True),
    "grad_add": make((2, 2), (70, 100, 8, 24), "add", grad=True),
    "grad_blocks": make((2,), (300, 400, 8, 24), "blocks", grad=True),
    "grad_float64": make((2,), (50, 100, 12, 9), "add", dtype=np.float64, grad=True),
    "grad_bfloat16": make((2,), (50, 100, 12, 9), "causal", dtype=ml_dtypes.bfloat16, grad=True),
    "grad_swapped": make((2,), (50, 100, 12, 9), "bool", swap=True, grad=True),
}


@pytest.mark.parametrize("name", CASES)
@each_target
def test_every_target_gives_the_bits_of_the_interpreter(target: str, name: str) -> None:
    kernel = compiled(CASES[name])
    wanted = kernel.interpret()
    assert bits_of(kernel.native(caps_of(target))) == bits_of(wanted)
    if target == "host":
        answer = dense(CASES[name])
        for result, array in wanted.items():
            tolerance = {2: 2e-2, 4: 2e-5 if "grad" in name else 3e-6, 8: 1e-13}[array.itemsize]
            np.testing.assert_allclose(
                array.astype(np.float64), answer[result], rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize(
    "name",
    ["odd", "more_keys", "bool", "swapped", "blocks", "grad_odd", "grad_blocks", "grad_swapped"],
)
@each_target
def test_no_schedule_and_no_split_changes_a_bit(target: str, name: str) -> None:
    kernel, caps = compiled(CASES[name]), caps_of(target)
    wanted = bits_of(kernel.interpret())
    grid = kernel.program.grids[0]
    base = wide_attention_schedule(grid, "l", split_target(caps.features), 1)
    changes = [
        {"owners": 32}, {"owners": 64}, {"vectors": 1}, {"inner_rows": 1},
        {"inner_rows": 3, "owners": 32},
    ]  # fmt: skip
    if "blocks" not in name:
        changes.append({"owners": 256})
    if "grad" in name:
        changes[1:1] = [{"is_one_pass": True}, {"is_one_pass": True, "owners": 32, "vectors": 1}]
    for change in changes if target == "host" else changes[1:3]:
        assert bits_of(kernel.native(caps, replace(base, **change))) == wanted, change
    assert bits_of(kernel.native(caps, replace(base, owners=32), split=3)) == wanted


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].q.shape[-2] <= 8])
@each_target
def test_few_queries_have_the_bits_of_many(target: str, name: str) -> None:
    """Keys in lanes, or queries in lanes."""
    kernel, caps = compiled(CASES[name]), caps_of(target)
    grid, features = kernel.program.grids[0], split_target(caps.features)
    chosen = choose_attention_schedule(grid, "l", features, 1)
    assert isinstance(chosen, ThinAttention) == ("few" in name and "swapped" not in name) or (
        "few" not in name
    )
    wide = wide_attention_schedule(grid, "l", features, 1)
    assert bits_of(kernel.native(caps, wide)) == bits_of(kernel.native(caps))


@pytest.mark.parametrize(
    ("name", "symbolic"),
    [("odd", "LSEV"), ("odd", "E"), ("add", "LS"), ("few", "S"), ("few_blocks", "S"),
     ("one_query", "S"), ("no_keys", "SV"),
     ("swapped", "LSEV"), ("grad_odd", "LSEV"), ("grad_add", "LS"), ("grad_swapped", "E")],
)  # fmt: skip
@each_target
def test_symbolic_sizes_give_the_same_bits(target: str, name: str, symbolic: str) -> None:
    case = replace(CASES[name], symbolic=tuple(symbolic))
    kernel = compiled(case)
    wanted = bits_of(compiled(CASES[name]).interpret())
    assert bits_of(kernel.native(caps_of(target))) == wanted
    assert bits_of(kernel.interpret()) == wanted


@pytest.mark.parametrize("seed", range(12))
def test_random_attention(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, keys = (int(n) for n in rng.integers(0, 300, 2))
    features, width = (int(n) for n in rng.integers(0, 90, 2))
    kind = str(rng.choice(["", "causal", "bool", "add", "keys", "blocks"]))
    sizes = (length, keys, features, width)
    case = make((int(rng.integers(1, 4)),), sizes, kind, seed, grad=bool(seed % 2))
    answer = dense(case)
    for name, got in compiled(case).native(caps_of("host")).items():
        np.testing.assert_allclose(got, answer[name], rtol=1e-5, atol=2e-5, err_msg=name)


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    case = make((2,), (40, 100, 8, 8), "bool")
    assert case.mask is not None
    case.mask[3], case.mask[35, :90] = False, False
    kernel = compiled(case)
    got = kernel.interpret()
    assert not got["out"][:, 3].any() and got["out"][:, 35].any()
    assert np.isneginf(got["lse"][:, 3]).all() and np.isneginf(got["top"][:, 3]).all()
    assert bits_of(kernel.native(caps_of("host"))) == bits_of(got)


def test_nan_stays_in_its_row_and_reaches_it() -> None:
    case = make((1,), (40, 100, 8, 8), "causal")
    case.q[0, 7, 3] = np.nan
    got = compiled(case).native(caps_of("host"))["out"]
    assert np.isnan(got[0, 7]).all() and np.isnan(got).sum() == 8


def test_large_scores_do_not_overflow() -> None:
    case = make((1,), (20, 150, 8, 8))
    case.q *= 3000
    got = compiled(case).native(caps_of("host"))["out"]
    np.testing.assert_allclose(got, dense(case)["out"], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("grad", [False, True])
@each_target
def test_what_is_outside_of_all_spans_is_not_read(target: str, grad: bool) -> None:
    """It holds NaN, which would show."""
    case = make((), (256, 320, 8, 8), "blocks", grad=grad)
    kept = np.zeros((256, 320), bool)
    kept[:128, 64:128], kept[128:, 192:256] = True, np.tri(128, 64, dtype=bool)
    case = replace(case, mask=kept, tables=tables_of(kept))
    kernel = compiled(case)
    wanted = kernel.interpret()
    case.k[:64], case.k[128:192], case.v[256:], case.k[256:] = np.nan, np.nan, np.nan, np.nan
    for array, new in zip(kernel.arrays[:3], (case.q, case.k, case.v), strict=True):
        array[...] = new.ravel()
    got = kernel.native(caps_of(target))
    for name in ("out", "lse", "d_q"):
        if name in wanted:
            assert got[name].tobytes() == wanted[name].tobytes(), name


def test_text_and_verifier_know_attention() -> None:
    for name in ("blocks", "grad_blocks", "odd"):
        program = compiled(CASES[name]).program
        verify_program(program, expanded=True)
        text = to_text(program)
        again = parse_program(text)
        assert to_text(again) == text and structural_key(again) == structural_key(program)


def test_verifier_refuses_wrong_holes() -> None:
    program = compiled(CASES["blocks"]).program
    grid = program.grids[0]
    assert isinstance(grid, AttentionGrid) and grid.softmax is not None
    assert grid.runs_l is not None
    softmax, (item,), (product,) = grid.softmax, grid.sums, grid.products
    acc = s.acc(float32)
    for change in (
        {"softmax": replace(softmax, score=s.const(1, int64))},
        {"softmax": replace(softmax, exp=s.index(grid.l.var))},
        {"softmax": replace(softmax, score=s.acc(float32, 1))},
        {"products": (replace(product, a=acc),)},
        {"products": (replace(product, b=s.cast(s.index(grid.l.var), float32)),)},
        {"keep": acc},
        {"acc_dtype": int64},
        {"sums": (replace(item, weight=s.neg(acc)),)},
        {"sums": (replace(item, over="n"),)},
        {"runs_l": replace(grid.runs_l, rows=100)},
        {"runs_l": replace(grid.runs_l, group=48)},
        {"runs_l": replace(grid.runs_l, part=48)},
        {"runs_l": replace(grid.runs_l, tile=128)},
        {"runs_l": replace(grid.runs_l, code=acc)},
    ):
        with pytest.raises(InvalidProgram):
            verify_program(replace(program, grids=(replace(grid, **change),)), expanded=False)
