"""Metal text read by clang, whose address spaces are Metal's: no pointer leaves its own.

g++ does not know address spaces (test_metal.py runs what it compiles); clang checks them, without
running anything. The same clang compiles the emulation, too. `pip install 'rushlight[clang]'` will
do (ziglang is clang in a package). **Apple's compiler is not here.**
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cfamily_cases import programs_of

from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal import emulate
from rushlight.backends.metal.caps import caps_of
from rushlight.backends.metal.language import Metal
from rushlight.base.config import config
from rushlight.testing.conformance import check, template_cases

HEADERS = Path(__file__).with_name("metal_spaces")
CASES = {case.name: case for case in template_cases()}


def find_clang(in_zig: str) -> tuple[str, ...]:
    """clang++, or the one in ziglang; (): there is none."""
    found = shutil.which("clang++")
    if found:
        return (found,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", in_zig)
    return ()


# Zig's `c++` knows a C++ library but not -fsyntax-only; its `clang` is clang, without a library.
CLANG, COMPILER = find_clang("clang"), find_clang("c++")
pytestmark = pytest.mark.skipif(not CLANG, reason="no clang++ (pip install 'rushlight[clang]')")


def texts_of(name: str) -> str:
    programs = programs_of([root for root in CASES[name].build() if not root.leaf])
    machine = Machine.of(caps_of("device", "checked"))
    return print_programs(lower_programs(programs, machine), Metal())


def complaints(texts: dict[str, str], folder: Path) -> str:
    """What clang says of some kernels, all in one run of it; nothing: it accepts them."""
    files = []
    for name, text in texts.items():
        files.append(folder / f"{name}.cpp")
        files[-1].write_text(text)
    done = subprocess.run(
        [*CLANG, "-fsyntax-only", "-std=c++17", "-Wno-unknown-attributes", "-Wno-unknown-pragmas",
         f"-I{HEADERS}", *map(str, files)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert (done.returncode == 0) == ("error:" not in done.stderr), done.stderr[-2000:]
    return done.stderr if done.returncode else ""


def test_pointers_of_every_kind_of_program_stay_in_their_address_space(tmp_path) -> None:
    texts = {name: texts_of(name) for name in CASES}
    assert sum("threadgroup " in text for text in texts.values()) > 20
    assert sum("simdgroup_load" in text for text in texts.values()) > 2
    assert complaints(texts, tmp_path) == ""


PLANTED = {
    "memory of the device as the group's": (
        r"(    const long instance_id = group_id;)", r"\1 part_1_at = b0;", "changes address space"
    ),
    "a helper that takes the other kind": (
        r"(    const long instance_id = group_id;)", r"\1 read_it(b0);", "no matching function"
    ),
    "a matrix from the device's memory": (
        r"(    const long instance_id = group_id;)",
        r"\1 simdgroup_float8x8 m; simdgroup_load(m, b0, 8);", "no matching function",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_a_pointer_that_leaves_is_seen(fault: str, tmp_path) -> None:
    what, by, says = PLANTED[fault]
    text = texts_of("softmax_rows")
    helper = "static inline float read_it(IN_SHARED const float *x) { return x[0]; }\n"
    helper += "static IN_SHARED const float *part_1_at;\n"
    bad = re.sub(what, by, text.replace("[[max_total", f"{helper}[[max_total", 1), count=1)
    assert bad.count("b0") > text.count("b0"), "nothing was planted"
    assert says in complaints({"planted": bad}, tmp_path)


@pytest.mark.parametrize("name", ["softmax_rows", "dot_epilogue", "scan", "sort", "attention"])
def test_what_clang_compiles_computes_what_it_says(name: str, tmp_path, monkeypatch) -> None:
    compiler, ran = tmp_path / "clang", tmp_path / "ran"
    compiler.write_text(f'#!/bin/sh\ntouch {ran}\nexec {" ".join(COMPILER)} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(emulate, "find_compiler", lambda: str(compiler))
    with config.override(metal_emulation=True, cache=False):
        outcome = check(CASES[name], "metal")
    assert outcome.status == "supported" and ran.exists(), outcome.text
