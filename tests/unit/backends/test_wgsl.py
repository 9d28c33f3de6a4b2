"""The backend that shows what a C-like language costs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cfamily_cases import GPU, programs_of

import rushlight.backends
from rushlight import ops
from rushlight.backends import find_backend
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.wgsl.build import kernel_texts
from rushlight.backends.wgsl.language import WGSL
from rushlight.base.dtypes import bool_, float32, int64, uint32
from rushlight.compiler.target import Missing
from rushlight.ir.node import const_node
from rushlight.testing.conformance import all_record_cases, run, template_cases

CASES = {case.name: case for case in template_cases()}
ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(rushlight.backends.__file__).parent / "wgsl"


def test_a_c_like_backend_costs_at_most_350_lines_and_the_readme_counts_them() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in FOLDER.glob("*.py"))
    assert lines <= 350
    (told,) = re.findall(r"(\d+) lines of Python", (FOLDER / "README.md").read_text())
    assert lines == int(told)


def test_words_of_32_bits_are_exchanged() -> None:
    language = WGSL()
    assert language.exchange("subgroup_down", "x", 4, float32) == "subgroupShuffleDown(x, 4u)"
    assert (
        language.exchange("subgroup_down", "x", 4, bool_)
        == "(subgroupShuffleDown(u32(x), 4u) != 0u)"
    )
    wide = language.exchange("subgroup_down", "x", 4, int64)
    assert wide.startswith("i64((u64(subgroupShuffleDown(u32(x), 4u)) | ") and "<< 32u" in wide


LAVAPIPE_WIDTH = 8  # of 256 bits


@pytest.mark.parametrize("name", ["sum_rows", "argmax", "prod"])
def test_lavapipe_joins_sums_inside_subgroups(name: str, monkeypatch) -> None:
    wgsl = find_backend("wgsl")
    caps = wgsl.find()
    if isinstance(caps, Missing) or "llvmpipe (LLVM 15.0.6, 256 bits)" not in caps.features:
        pytest.skip("no lavapipe whose width is known")
    exchanging = replace(wgsl, find=lambda: replace(caps, subgroup=LAVAPIPE_WIDTH))
    monkeypatch.setattr(
        run, "find_backend", lambda name: exchanging if name == "wgsl" else find_backend(name)
    )
    roots = [root for root in CASES[name].build() if not root.leaf]
    programs = programs_of(roots)
    lowered = lower_programs(programs, Machine.of(exchanging.find()))
    assert any("subgroupShuffleDown" in text for one in lowered for text in kernel_texts(one))
    for have, want in zip(run.run_on("wgsl", roots), run.run_on("interp", roots), strict=True):
        assert not run.different_bits(have, want)


def test_text_is_wgsl() -> None:
    narrow = GPU.__class__(**{**GPU.__dict__, "index_bytes": 4})
    programs = programs_of([root for root in CASES["softmax_rows"].build() if not root.leaf])
    (lowered,) = lower_programs(programs, Machine.of(narrow))
    (text,) = kernel_texts(lowered)
    assert "@compute @workgroup_size(64)" in text
    assert "var<workgroup> part_1: array<f32, " in text
    assert "long" not in text and "float" not in text.replace("_float32", "")
    assert text.count("{") == text.count("}")


BOTH = """
import rushlight as torch
print((torch.ones(3, device="vulkan") * 2).sum().item())
try:
    torch.ones(3, device="cuda")
except AssertionError as error:
    print(error)
"""


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("wgpu", "triton")),
    reason="pip install wgpu triton",
)
def test_triton_is_not_loaded_into_a_process_with_lavapipe() -> None:
    """Where the two LLVMs met, the process ended in a crash."""
    done = subprocess.run(
        [sys.executable, "-c", BOTH], capture_output=True, text=True, timeout=300,
        env={**os.environ, "RUSHLIGHT_TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if "is not available" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    caps = find_backend("wgsl").find()
    is_lavapipe = not isinstance(caps, Missing) and "llvmpipe" in caps.features
    assert done.stdout.startswith("6.0") and ("lavapipe" in done.stdout) == is_lavapipe


def lowered_text(*roots) -> str:
    narrow = GPU.__class__(**{**GPU.__dict__, "index_bytes": 4})
    return "\n".join(
        text
        for one in lower_programs(programs_of(list(roots)), narrow)
        for text in kernel_texts(one)
    )


def test_the_compiler_does_not_see_constants_that_it_would_divide() -> None:
    """`1 / 0` of two literals is an error in a shader, and so is an integer that overflows."""
    assert WGSL().hidden("1.0f", float32) == "opaque(1.0f)"
    assert WGSL().hidden("1li", int64) == "(1li ^ i64(status[1]))"
    assert WGSL().hidden("true", bool_) == "true"
    text = lowered_text(ops.div(const_node(1.0, float32), const_node(0.0, float32)))
    assert "1.0f / 0.0f" not in text and "opaque(1.0f) / 0.0f" in text


def test_unsigned_numbers_have_no_sign() -> None:
    assert WGSL().operation("neg", uint32, ["x"], uint32) == "(0u - x)"
    assert WGSL().operation("neg", int64, ["x"], int64) == "(-x)"


NUMBERS = ("reciprocal", "rsqrt", "neg", "pair_mask", "argtopk_")


@pytest.mark.parametrize("name", NUMBERS)
def test_records_compute_or_are_refused_in_every_dtype(name: str) -> None:
    """Where a plan has several programs of one name, one that is refused is enough."""
    caps = find_backend("wgsl").find()
    if isinstance(caps, Missing):
        pytest.skip(f"wgsl: {caps.reason}")
    cases = [case for case in all_record_cases() if case.name == name and case.dtype != "float64"]
    found = {case.dtype: run.check(case, "wgsl") for case in cases}
    assert not [o.text for o in found.values() if o.status == "failed"]
    assert {found[kind].status for kind in found if kind in ("bfloat16", "int8")} <= {"refused"}
