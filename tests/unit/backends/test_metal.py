"""Metal text, and the same text as C++ on the host: Apple's compiler and hardware are not here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cfamily_cases import programs_of

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.native import Library
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal.caps import caps_of
from rushlight.backends.metal.emulate import DIVERGED, PREFIX, emulated_library
from rushlight.backends.metal.language import Metal
from rushlight.base.config import config
from rushlight.compiler.target import Missing
from rushlight.compiler.tile.ir import Buffer
from rushlight.ir import scalar as s
from rushlight.testing.conformance import check, template_cases

GOLDEN = Path(__file__).with_name("golden")
CASES = {case.name: case for case in template_cases()}
DEVICE = caps_of("device", "golden")
needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler here"
)


def text_of(name: str) -> str:
    programs = programs_of([root for root in CASES[name].build() if not root.leaf])
    return print_programs(lower_programs(programs[:1], Machine.of(DEVICE)), Metal())


@pytest.mark.parametrize("name", ["softmax_rows", "sum_columns", "dot_epilogue", "sort", "gather"])
def test_text_is_the_golden_one(name: str, request) -> None:
    """To accept new text: delete the file, run again, look at the difference."""
    path = GOLDEN / f"{name}.metal"
    text = text_of(name)
    if not path.exists():
        path.write_text(text)
    assert text == path.read_text()


def test_a_row_is_joined_without_memory() -> None:
    """SIMD groups have 32 threads, as many as a sum has partials: five exchanges, no barrier."""
    text = text_of("sum_rows")
    assert text.count("simd_shuffle_down") >= 5
    assert "threadgroup float part_1[" in text


def test_on_other_machines_it_is_missing_and_says_what_to_do() -> None:
    found = find_backend("metal").find()
    if not config.metal_emulation and isinstance(found, Missing):
        assert "RUSHLIGHT_METAL_EMULATION=1" in found.fix
        assert not torch.backends.mps.is_available()
        with pytest.raises(RuntimeError, match="device 'mps' is not available"):
            torch.zeros(3, device="mps")


@needs_compiler
@pytest.mark.parametrize("name", ["softmax_rows", "dot", "scan", "sort", "scatter_rows", "gather"])
def test_emulated_kernels_compute_what_they_say(name: str) -> None:
    with config.override(metal_emulation=True):
        outcome = check(CASES[name], "metal")
    assert outcome.status == "supported", outcome.text


@needs_compiler
def test_doubles_are_made_of_integers() -> None:
    with config.override(metal_emulation=True, backend="metal", cache=False):
        x = torch.tensor([1.0, -3.0, 1e-310, 1e300], dtype=torch.float64)
        found = (x / 3 + x).numpy()
    assert (found == x.numpy() / 3 + x.numpy()).all()


def emulated(make: Callable[[Buffer, c.Array], c.Block], threads: int = 64) -> tuple:
    """Run a kernel of one group, made of an output buffer and a shared array; what the buffer
    holds, and the status."""
    (program,) = programs_of([root for root in CASES["gather"].build() if not root.leaf])
    out = program.buffers[-1]
    shared = c.Array("shared_1", out.dtype, 64, "shared")
    kernel = c.Kernel("by_hand", 1, threads, (shared,), make(out, shared))
    lowered = c.ThreadProgram(program, (kernel,), ())
    library = Library(emulated_library(print_programs([lowered], Metal()), [lowered]))
    memories = [np.zeros(4096, buffer.dtype.np) for buffer in program.buffers]
    places = np.array([m.ctypes.data for m in memories], np.int64)
    words, status = np.zeros(32, np.int64), np.zeros(1, np.int64)
    run = library.function(PREFIX + "by_hand").call
    run(0, 1, places.ctypes.data, words.ctypes.data, status.ctypes.data)
    return memories[-1], int(status[0])


@needs_compiler
def test_threads_see_what_others_wrote_before_a_barrier() -> None:
    def make(out: Buffer, shared: c.Array) -> c.Block:
        here = s.cast(s.index(c.THREAD), out.dtype)
        return (
            c.Put(shared, c.THREAD, here),
            c.Barrier(),
            c.Put(out, c.THREAD, s.load(shared, 63 - c.THREAD)),
        )

    found, status = emulated(make)
    assert status == 0
    np.testing.assert_array_equal(found[:64], np.arange(63, -1, -1))


@needs_compiler
def test_a_barrier_that_some_threads_miss_is_found() -> None:
    some = s.lt(s.index(c.THREAD), s.index(40))
    _, status = emulated(lambda out, shared: (c.If(some, (c.Barrier(),)),))
    assert status == DIVERGED


@needs_compiler
def test_neighbours_exchange_inside_a_simd_group() -> None:
    def make(out: Buffer, shared: c.Array) -> c.Block:
        here = s.cast(s.index(c.THREAD), out.dtype)
        return (c.Put(out, c.THREAD, s.make("subgroup_down", (here,), out.dtype, 4)),)

    found, status = emulated(make)
    lanes = np.arange(64)
    wanted = np.where(lanes % 32 + 4 < 32, lanes + 4, lanes)
    assert status == 0
    np.testing.assert_array_equal(found[:64], wanted)


def test_every_kernel_says_how_many_threads_it_has() -> None:
    text = text_of("dot_epilogue")
    assert re.search(r"\[\[max_total_threads_per_threadgroup\(\d+\)\]\]\nkernel void", text)
    assert "double" not in text
