"""Attention: one meaning for every target, schedule and thread count, near the dense one."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from rushlight.backends.interp.run import run_program
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.schedule import choose_attention_schedule
from rushlight.base.dtypes import float32, int64
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.tile.ir import AttentionGrid, Axis, Buffer, Program, Store
from rushlight.compiler.tile.text import structural_key, to_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.compiler.tile.verify import InvalidProgram, verify_program
from rushlight.ir import scalar as s
from rushlight.ir.symint import maximum
from tests.unit.backends.attention_cases import Case, compile_program, compiled, dense, make
from tests.unit.backends.llvm_run import run
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
    "float64": make((2,), (50, 100, 12, 9), "add", dtype=np.float64),
    "bfloat16": make((2,), (50, 100, 12, 9), "causal", dtype=ml_dtypes.bfloat16),
    "float16": make((2,), (50, 100, 12, 9), "bool", dtype=np.float16),
    "swapped": make((2,), (50, 100, 12, 9), "add", swap=True),
}


@pytest.mark.parametrize("name", CASES)
@each_target
def test_every_target_gives_the_bits_of_the_interpreter(target: str, name: str) -> None:
    kernel = compiled(CASES[name])
    wanted = kernel.interpret()
    assert kernel.native(caps_of(target)).tobytes() == wanted.tobytes()
    if target == "host":
        tolerance = {2: 2e-2, 4: 3e-6, 8: 1e-14}[wanted.itemsize]
        np.testing.assert_allclose(
            wanted.astype(np.float64), dense(CASES[name]), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("name", ["odd", "more_keys", "bool", "swapped"])
@each_target
def test_no_schedule_and_no_split_changes_a_bit(target: str, name: str) -> None:
    kernel, caps = compiled(CASES[name]), caps_of(target)
    wanted = kernel.interpret().tobytes()
    grid = kernel.program.grids[0]
    base = choose_attention_schedule(grid, split_target(caps.features), 1)
    for change in (
        {"queries": 32}, {"queries": 64}, {"queries": 256}, {"vectors": 1},
        {"key_rows": 1}, {"key_rows": 3, "value_rows": 2}, {"value_rows": 4, "queries": 32},
    ):  # fmt: skip
        assert kernel.native(caps, replace(base, **change)).tobytes() == wanted, change
    assert kernel.native(caps, replace(base, queries=32), split=3).tobytes() == wanted


@pytest.mark.parametrize(
    ("name", "symbolic"),
    [("odd", "LSEV"), ("odd", "E"), ("add", "LS"), ("one_query", "S"), ("no_keys", "SV"),
     ("swapped", "LSEV")],
)  # fmt: skip
@each_target
def test_symbolic_sizes_give_the_same_bits(target: str, name: str, symbolic: str) -> None:
    case = replace(CASES[name], symbolic=tuple(symbolic))
    kernel = compiled(case)
    wanted = compiled(CASES[name]).interpret()
    assert kernel.native(caps_of(target)).tobytes() == wanted.tobytes()
    assert kernel.interpret().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("seed", range(12))
def test_random_attention(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, keys = (int(n) for n in rng.integers(0, 300, 2))
    features, width = (int(n) for n in rng.integers(0, 90, 2))
    kind = str(rng.choice(["", "causal", "bool", "add", "keys"]))
    case = make((int(rng.integers(1, 4)),), (length, keys, features, width), kind, seed)
    got = compiled(case).native(caps_of("host"))
    np.testing.assert_allclose(got, dense(case), rtol=1e-5, atol=5e-6)


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    case = make((2,), (40, 100, 8, 8), "bool")
    assert case.mask is not None
    case.mask[3], case.mask[35, :90] = False, False
    kernel = compiled(case)
    got = kernel.interpret()
    assert not got[:, 3].any() and got[:, 35].any()
    assert kernel.native(caps_of("host")).tobytes() == got.tobytes()


def test_nan_stays_in_its_row_and_reaches_it() -> None:
    case = make((1,), (40, 100, 8, 8), "causal")
    case.q[0, 7, 3] = np.nan
    got = compiled(case).native(caps_of("host"))
    assert np.isnan(got[0, 7]).all() and np.isnan(got).sum() == 8


def test_large_scores_do_not_overflow() -> None:
    case = make((1,), (20, 150, 8, 8))
    case.q *= 3000
    got = compiled(case).native(caps_of("host"))
    np.testing.assert_allclose(got, dense(case), rtol=2e-2, atol=2e-2)


WINDOW = 40


def window_program(length: int, keys: int, features: int) -> Program:
    """Query l sees the keys l - WINDOW < s <= l; the lse is stored as well."""
    q, k, v, out = (
        Buffer(name, float32, n * features, role)
        for name, n, role in (
            ("q", length, "in"), ("k", keys, "in"), ("v", keys, "in"), ("out", length, "out"),
        )
    )  # fmt: skip
    lse = Buffer("lse", float32, length, "out")
    sizes = {"l": length, "s": keys, "e": features, "w": features}
    axes = [Axis(name, size) for name, size in sizes.items()]
    i, j, e, w = (axis.var for axis in axes)
    acc = s.acc(float32)
    near = s.lt(s.index(i - j), s.const(WINDOW, int64)) & s.le(s.index(j), s.index(i))
    score = s.select(near, acc, s.const(float("-inf"), float32))
    grid = AttentionGrid(
        (), *axes, s.load(q, i * features + e), s.load(k, j * features + e),
        s.load(v, j * features + w), score, maximum(i - WINDOW + 1, 0), i + 1, s.exp(acc),
        s.log(acc), float32, (Store(out, i * features + w, acc),), (Store(lse, i, acc),),
    )  # fmt: skip
    return Program("window", (q, k, v, out, lse), (), (), (grid,))


@each_target
def test_keys_out_of_the_range_are_not_read(target: str) -> None:
    """They hold NaN, which would show; and the lse is that of the dense scores."""
    length, features = 170, 8
    case = make((), (length, length, features, features))
    program = expand(window_program(length, length, features))
    distance = np.arange(length)[:, None] - np.arange(length)
    case.mask = (distance >= 0) & (distance < WINDOW)
    case.k[160:], case.v[160:] = np.nan, np.nan  # seen by nobody before 160: the last group
    arrays = [x.copy().ravel() for x in (case.q, case.k, case.v)]
    outputs = [np.zeros(length * features, np.float32), np.zeros(length, np.float32)]
    assert run(compile_program(program, caps_of(target)), arrays + outputs) == 0
    slow = [np.zeros_like(x) for x in outputs]
    run_program(program, arrays + slow, {}, {}, races=True)
    rows = 160
    for got, wanted in zip(outputs, slow, strict=True):
        got, wanted = got.reshape(length, -1)[:rows], wanted.reshape(length, -1)[:rows]
        assert got.tobytes() == wanted.tobytes()
    seen = Case(case.q[:rows], case.k[:rows], case.v[:rows], case.mask[:rows, :rows])
    np.testing.assert_allclose(outputs[0].reshape(length, -1)[:rows], dense(seen), atol=3e-6)
    scores = seen.q.astype(float) @ seen.k.T.astype(float)
    lse = np.log(np.where(seen.mask, np.exp(scores), 0).sum(1))
    np.testing.assert_allclose(outputs[1][:rows], lse, atol=3e-6)


def test_text_and_verifier_know_attention() -> None:
    program = window_program(70, 70, 8)
    verify_program(program, expanded=False)
    text = to_text(program)
    again = parse_program(text)
    assert to_text(again) == text and structural_key(again) == structural_key(program)
    assert structural_key(expand(program)) != structural_key(program)
    grid = program.grids[0]
    assert isinstance(grid, AttentionGrid)
    for name, value in (
        ("score", s.const(1, int64)), ("q", s.acc(float32)), ("stop", grid.s.var),
        ("exp", s.index(grid.l.var)), ("acc_dtype", int64),
    ):  # fmt: skip
        with pytest.raises(InvalidProgram):
            wrong = replace(grid, **{name: value})
            verify_program(replace(program, grids=(wrong,)), expanded=False)
