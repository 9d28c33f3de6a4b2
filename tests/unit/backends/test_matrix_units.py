"""Products on matrix units, where a machine has them (Apple's simdgroup_matrix)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cfamily_cases import programs_of
from test_cfamily import unguarded

import rushlight.backends.metal
from rushlight import ops
from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_program
from rushlight.backends.cfamily.native import Library, compile_library
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal.caps import caps_of, find_compiler
from rushlight.backends.metal.emulate import FLAGS
from rushlight.backends.metal.language import Metal
from rushlight.base.config import config
from rushlight.testing.conformance.cases import leaf
from rushlight.testing.conformance.run import different_bits, run_on

APPLE = Machine.of(caps_of("device", ""))
OLD_MAC = Machine.of(replace(caps_of("device", ""), matrices=1))
RNG = np.random.default_rng(5)
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler here")


def product(m: int, n: int, k: int, dtype: object = "float32"):
    a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    return ops.dot(leaf(a), leaf(b))


def kernel_of(root, machine: Machine = APPLE) -> tuple[c.Kernel, str]:
    (program,) = programs_of([root])
    lowered = lower_program(program, machine)
    return lowered.kernels[-1], print_programs([lowered], Metal())


def test_a_subgroup_makes_16_matrices_from_8() -> None:
    kernel, text = kernel_of(product(64, 64, 64))
    assert kernel.threads == 128
    assert text.count("simdgroup_load(") == 8
    assert text.count("simdgroup_multiply_accumulate(") == text.count("simdgroup_store(") == 16
    assert not unguarded(kernel.body)
    without = tuple(x for x in kernel.body if not isinstance(x, c.Barrier))
    assert unguarded(without)


def test_halves_wait_as_halves_and_all_else_as_float() -> None:
    _, half = kernel_of(product(64, 64, 64, "float16"))
    assert "simdgroup_half8x8 a_0_;" in half and "simdgroup_float8x8 acc_0_0 = " in half
    _, bfloat = kernel_of(product(64, 64, 64, ml_dtypes.bfloat16))
    assert "simdgroup_float8x8 a_0_;" in bfloat


@pytest.mark.parametrize(
    ("root", "machine"),
    [
        (product(1, 64, 64), APPLE),
        (product(64, 64, 64, "float64"), APPLE),
        (product(64, 64, 64), OLD_MAC),
        (product(64, 64, 64), replace(APPLE, shared_bytes=4096)),
    ],
    ids=["one row", "doubles", "no units", "little memory"],
)
def test_others_are_made_thread_by_thread(root, machine) -> None:
    assert "simdgroup_" not in kernel_of(root, machine)[1]


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "dtype", "vary"),
    [
        ((64, 64, 64), "float16", False),
        ((33, 45, 70), "float32", False),
        ((33, 45, 70), ml_dtypes.bfloat16, True),
        ((70, 9, 300), "float16", True),
    ],
)
def test_emulated_units_give_the_bits_of_the_interpreter(shape, dtype, vary) -> None:
    root = product(*shape, dtype)
    with config.override(metal_emulation=True, cache=False):
        (got,), (wanted,) = run_on("metal", [root], vary), run_on("interp", [root])
    assert not different_bits(got, wanted)


@needs_compiler
def test_what_lies_outside_of_the_operands_adds_nothing() -> None:
    """The last piece of k is not full; NaN from the piece before it must not stay there."""
    a = np.ones((40, 20), np.float32)
    a[3, 14] = np.nan
    with config.override(metal_emulation=True, cache=False):
        (found,) = run_on("metal", [ops.dot(leaf(a), leaf(np.ones((20, 40), np.float32)))])
    assert np.isnan(found[3]).all()
    assert (np.delete(found, 3, 0) == 20).all()


CHECK = """
#include <metal_stdlib>
extern "C" void check(long first, long stop, void *const *buffers, const long *, long *status) {
    const ushort *bits = (const ushort *)buffers[0];
    float *wide = (float *)buffers[1];
    ushort *back = (ushort *)buffers[2];
    for (long i = first; i < stop; i++) {
        metal::KIND value;
        value.bits = bits[i];
        wide[i] = value;
        back[i] = metal::KIND(((float *)buffers[3])[i]).bits;
    }
    *status = 0;
}
"""


@needs_compiler
@pytest.mark.parametrize(("kind", "dtype"), [("half", np.float16), ("bfloat", ml_dtypes.bfloat16)])
def test_the_emulations_short_floats_are_numpys(kind, dtype) -> None:
    folder = Path(rushlight.backends.metal.__file__).parent / "emulation"
    command = (str(find_compiler()), *FLAGS, f"-I{folder}")
    library = Library(compile_library(CHECK.replace("KIND", kind), ".cpp", command, "metal"))
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = np.random.default_rng(1).standard_normal(1 << 16).astype(np.float32)
    values *= np.exp2(np.linspace(-60, 60, 1 << 16)).astype(np.float32)
    values[:4] = [np.inf, -np.inf, 65519.9, -0.0]
    wide, back = np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.uint16)
    places = np.array([x.ctypes.data for x in (bits, wide, back, values)], np.int64)
    status = np.ones(1, np.int64)
    library.function("check").call(0, 1 << 16, places.ctypes.data, 0, status.ctypes.data)
    np.testing.assert_array_equal(wide, bits.view(dtype).astype(np.float32))
    np.testing.assert_array_equal(back, values.astype(dtype).view(np.uint16))
