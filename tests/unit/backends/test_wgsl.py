"""The backend that shows what a C-like language costs."""

from __future__ import annotations

from pathlib import Path

from cfamily_cases import GPU, programs_of

import rushlight.backends
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.wgsl.build import kernel_texts
from rushlight.testing.conformance import template_cases

CASES = {case.name: case for case in template_cases()}
FOLDER = Path(rushlight.backends.__file__).parent / "wgsl"


def test_a_c_like_backend_costs_at_most_350_lines() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in FOLDER.glob("*.py"))
    assert lines <= 350


def test_text_is_wgsl() -> None:
    narrow = GPU.__class__(**{**GPU.__dict__, "index_bytes": 4})
    programs = programs_of([root for root in CASES["softmax_rows"].build() if not root.leaf])
    (lowered,) = lower_programs(programs, Machine.of(narrow))
    (text,) = kernel_texts(lowered)
    assert "@compute @workgroup_size(64)" in text
    assert "var<workgroup> part_1: array<f32, " in text
    assert "long" not in text and "float" not in text.replace("_float32", "")
    assert text.count("{") == text.count("}")
