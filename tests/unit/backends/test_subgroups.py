"""Sums joined by threads that exchange values, for every width that machines have."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from cfamily_cases import GPU, programs_of

from rushlight import ops
from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal import caps
from rushlight.backends.metal.language import Metal
from rushlight.backends.opencl.language import OpenCL
from rushlight.base.config import config
from rushlight.base.dtypes import bool_, float32, float64, int64
from rushlight.testing.conformance import template_cases
from rushlight.testing.conformance.cases import leaf
from rushlight.testing.conformance.run import different_bits, run_on

CASES = {case.name: case for case in template_cases()}
WIDTHS = (8, 16, 32)
REDUCED = ("softmax_rows", "sum_rows", "sum_all", "argmax", "extremes", "prod")


def pending(name: str) -> list:
    return [root for root in dict.fromkeys(CASES[name].build()) if not root.leaf]


def lowered(name: str, width: int) -> list[c.ThreadProgram]:
    return lower_programs(programs_of(pending(name)), Machine.of(replace(GPU, subgroup=width)))


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler here")
@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("width", WIDTHS)
def test_bits_are_those_of_the_interpreter(name: str, width: int, monkeypatch) -> None:
    known = caps.caps_of
    monkeypatch.setattr(caps, "caps_of", lambda *of: replace(known(*of), subgroup=width))
    monkeypatch.setenv("RUSHLIGHT_EMULATION_SIMD", str(width))
    roots = pending(name)
    with config.override(metal_emulation=True, cache=False):
        got, wanted = run_on("metal", roots), run_on("interp", roots)
    for root, have, want in zip(roots, got, wanted, strict=True):
        assert not different_bits(have, want), root.name


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_is_joined_without_memory_and_without_waiting(width: int) -> None:
    """Partials of one thread are joined by it, the rest in exchanges."""
    (program,) = lowered("sum_rows", width)
    with_exchange = [k for k in program.kernels if c.uses_subgroup(k.body)]
    assert with_exchange
    text = print_programs([program], Metal())
    for kernel in with_exchange:
        part = text[text.index(f"kernel void {kernel.name}(") :]
        assert part.count("simd_shuffle_down") >= width.bit_length() - 1
    assert "* 32]" not in text


@pytest.mark.parametrize("width", [1, 64])
def test_other_machines_wait_at_barriers(width: int) -> None:
    (program,) = lowered("sum_rows", width)
    assert not any(c.uses_subgroup(k.body) for k in program.kernels)
    assert any(isinstance(x, c.Barrier) for k in program.kernels for x in c.walk(k.body))


SCANS = [
    (ops.scan_sum, np.int64, 3), (ops.scan_sum, np.int32, 100), (ops.scan_max, np.float32, 700),
    (ops.scan_argmax, np.float32, 300), (ops.scan_argmin, np.float64, 40),
]  # fmt: skip


def scan(op, dtype, length: int):
    """Rows with equal values and NaN: the later position counts, and NaN wins."""
    values = np.random.default_rng(2).integers(-5, 6, (5, length)).astype(dtype)
    if values.dtype.kind == "f":
        values[1, length // 2 :] = np.nan
        values[2] = -np.inf
    return op(leaf(values), 1)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler here")
@pytest.mark.parametrize("width", WIDTHS)
def test_scans_in_subgroups_have_the_bits_of_the_interpreter(width: int, monkeypatch) -> None:
    known = caps.caps_of
    monkeypatch.setattr(caps, "caps_of", lambda *of: replace(known(*of), subgroup=width))
    monkeypatch.setenv("RUSHLIGHT_EMULATION_SIMD", str(width))
    roots = [scan(*case) for case in SCANS]
    with config.override(metal_emulation=True, cache=False):
        got, wanted = run_on("metal", roots), run_on("interp", roots)
    for root, have, want in zip(roots, got, wanted, strict=True):
        assert not different_bits(have, want), root.name


def test_only_scans_whose_order_does_not_matter_are_shared() -> None:
    machine = Machine.of(replace(GPU, subgroup=32))

    def exchanges(root) -> bool:
        (program,) = programs_of([root])
        return any(c.uses_subgroup(k.body) for k in lower_programs([program], machine)[0].kernels)

    assert exchanges(scan(ops.scan_sum, np.int64, 100))
    assert exchanges(scan(ops.scan_max, np.float32, 100))
    assert not exchanges(scan(ops.scan_sum, np.float32, 100))


def test_what_a_simd_group_cannot_exchange_goes_in_parts() -> None:
    metal, opencl = Metal(), OpenCL(True, subgroup=32)
    assert metal.exchange("subgroup_down", "x", 4, float32) == "simd_shuffle_down(x, 4)"
    pair = "as_type<long>(simd_shuffle_down(as_type<uint2>(x), 4))"
    assert metal.exchange("subgroup_down", "x", 4, int64) == pair
    assert metal.exchange("subgroup_down", "x", 4, float64) == pair.replace("long", "ulong")
    assert metal.exchange("subgroup_down", "x", 4, bool_) == "bool(simd_shuffle_down(uchar(x), 4))"
    assert (
        opencl.exchange("subgroup_down", "x", 4, bool_)
        == "(sub_group_shuffle_down((uchar)(x), 4u) != 0)"
    )


def test_a_kernel_that_exchanges_asks_for_its_width() -> None:
    (program,) = lowered("sum_rows", 16)
    text = print_programs([program], OpenCL(True, subgroup=16))
    exchanging = sum(c.uses_subgroup(k.body) for k in program.kernels)
    assert text.count("intel_reqd_sub_group_size(16)") == exchanging > 0
