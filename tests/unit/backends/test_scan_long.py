"""Scans of rows that are work for many groups: one order of sums, whoever computes them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from cfamily_cases import GPU, programs_of
from test_cfamily import unguarded

from rushlight import ops
from rushlight.backends import find_backend
from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_program
from rushlight.backends.cfamily.scan import BLOCK
from rushlight.backends.cfamily.scan_long import BLOCKS, SPAN
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.opencl.language import OpenCL
from rushlight.base.config import config
from rushlight.compiler.target import Missing
from rushlight.ir.symint_walk import evaluate
from rushlight.testing.conformance.cases import leaf
from rushlight.testing.conformance.run import run_on

TWO_PASSES = Machine.of(GPU)
ONE_PASS = Machine(64, 32 << 10, 16, progress=True)
LENGTH = 3 * SPAN + 1000
ROWS = np.random.default_rng(3).standard_normal((2, LENGTH)).astype(np.float32)


def left_fold(values: np.ndarray, start: np.float32) -> np.ndarray:
    """Of one block: start, then each value."""
    return np.cumsum(np.concatenate([[start], values]), dtype=np.float32)[1:]


def documented_order(row: np.ndarray) -> np.ndarray:
    """Blocks, spans, the row: as scan_long.py says."""
    zero = np.float32(-0.0)
    ahead, out = zero, []
    for first in range(0, len(row), SPAN):
        blocks = [row[i : i + BLOCK] for i in range(first, min(first + SPAN, len(row)), BLOCK)]
        inside = zero
        for number, block in enumerate(blocks):
            out.append(left_fold(block, np.float32(ahead + inside) if number else ahead))
            inside = np.float32(inside + left_fold(block, zero)[-1])
        ahead = np.float32(ahead + inside)
    return np.concatenate(out)


def kernels(machine: Machine, vary: bool = False) -> tuple[c.Kernel, ...]:
    (program,) = programs_of([ops.scan_sum(leaf(ROWS), 1)], vary)
    return lower_program(program, machine).kernels


def text(machine: Machine) -> str:
    (program,) = programs_of([ops.scan_sum(leaf(ROWS), 1)])
    return print_programs([lower_program(program, machine)], OpenCL(True, machine.progress))


def test_where_groups_may_wait_the_elements_are_read_in_one_pass() -> None:
    reset, scan = kernels(ONE_PASS)
    assert scan.groups == 2 * 4 and not any(isinstance(x, c.Sync) for x in c.walk(reset.body))
    kinds = [x.kind for x in c.walk(scan.body) if isinstance(x, c.Sync)]
    assert kinds == ["ticket", "wait", "signal"]
    assert "sync_wait(" in text(ONE_PASS)


def test_where_they_may_not_no_group_waits_for_another() -> None:
    assert [k.groups for k in kernels(TWO_PASSES)] == [8, 1, 8]
    assert "sync" not in text(TWO_PASSES)


def test_a_length_that_is_known_at_run_time_decides_then() -> None:
    short, *long = kernels(TWO_PASSES, vary=True)

    def groups(length: int) -> list[int]:
        names = {"n0": 2, "n1": length}
        return [evaluate(kernel.groups, names) for kernel in (short, *long)]

    assert groups(SPAN) == [1, 0, 0, 0]
    assert groups(SPAN + 1) == [0, 4, 1, 4]


def run(backend: str, **settings: object) -> np.ndarray:
    with config.override(backend=backend, cache=False, **settings):
        found = find_backend(backend).find()
        if isinstance(found, Missing):
            pytest.skip(found.reason)
        return run_on(backend, [ops.scan_sum(leaf(ROWS), 1)])[0]


def assert_documented(found: np.ndarray) -> None:
    wanted = np.stack([documented_order(row) for row in ROWS])
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_opencl_adds_in_the_documented_order_every_time() -> None:
    for _ in range(5):
        assert_documented(run("opencl"))


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler here")
@pytest.mark.parametrize("seed", ["", "1", "2"])
def test_metal_adds_in_the_documented_order_whoever_is_first(seed: str, monkeypatch) -> None:
    if seed:
        monkeypatch.setenv("RUSHLIGHT_EMULATION_SEED", seed)
    assert_documented(run("metal", metal_emulation=True))


@pytest.mark.parametrize("machine", [ONE_PASS, TWO_PASSES], ids=["one pass", "two passes"])
@pytest.mark.parametrize("kind", ["argmax", "max", "sum"])
def test_a_barrier_stands_between_what_threads_write_and_read(machine, kind) -> None:
    root = getattr(ops, f"scan_{kind}")(leaf(ROWS), 1)
    (program,) = programs_of([root])
    for kernel in lower_program(program, machine).kernels:
        assert not unguarded(kernel.body), kernel.name


def test_the_whole_row_is_in_blocks() -> None:
    assert SPAN == BLOCKS * BLOCK and LENGTH % BLOCK
