"""The backend `c`: its compiler, its libraries, its bits."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest
from cfamily_cases import programs_of

import rushlight as torch
from rushlight import ops
from rushlight.backends import find_backend
from rushlight.backends.c import caps
from rushlight.backends.cfamily.native import Library, compile_library
from rushlight.base.config import config
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Missing
from rushlight.testing.conformance import Case, check, template_cases
from rushlight.testing.conformance.cases import leaf

BACKEND = find_backend("c")
CAPS = BACKEND.find()
pytestmark = pytest.mark.skipif(isinstance(CAPS, Missing), reason="no C compiler here")
CASES = {case.name: case for case in template_cases()}


def test_a_compiler_that_is_not_there_is_named_with_the_fix() -> None:
    with config.override(c_compiler="no-such-cc"):
        missing = BACKEND.find()
        assert isinstance(missing, Missing) and "no-such-cc" in missing.reason
        with pytest.raises(BackendError, match="backend c is not available.*install gcc or clang"):
            BACKEND.require()


def test_ziglang_serves_where_there_is_no_other_compiler(monkeypatch) -> None:
    """It refuses options of GCC that clang itself only warns of."""
    pytest.importorskip("ziglang")
    caps.find_compiler.cache_clear()
    monkeypatch.setattr(caps.shutil, "which", lambda name: None)
    try:
        assert "ziglang" in caps.find_compiler("")
        assert not isinstance(BACKEND.find(), Missing)
        outcome = check(CASES["softmax_rows"], "c")
        assert outcome.status == "supported", outcome
    finally:
        caps.find_compiler.cache_clear()


def test_what_the_compiler_says_is_in_the_error() -> None:
    with pytest.raises(BackendError, match="error"):
        compile_library("this is not C", ".c", (CAPS.features.split("|")[0], "-shared"), "c")


def numbered(number: int) -> bytes:
    source = f"void k(long a, long b, void *c, const long *d, long *e) {{ *e = {number}; }}"
    return compile_library(source, ".c", (CAPS.features.split("|")[0], "-fPIC", "-shared"), "c")


def test_a_library_is_not_taken_for_one_that_was_there_before() -> None:
    """A loader knows libraries by inode: a file that is gone must not lend its inode to another."""
    libraries = [Library(numbered(n)) for n in (3, 5, 7)]
    status = np.zeros(1, np.int64)
    for library, wanted in zip(libraries, (3, 5, 7), strict=True):
        library.function("k").call(0, 0, 0, 0, status.ctypes.data)
        assert status[0] == wanted


def mapped() -> int:
    with open("/proc/self/maps") as file:
        return sum("rushlight-native" in line for line in file)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_code_is_unloaded_when_nothing_refers_to_it() -> None:
    before = mapped()
    library = Library(numbered(1))
    function = library.function("k")
    del library
    gc.collect()
    assert mapped() > before, "a function keeps its library"
    del function
    gc.collect()
    assert mapped() == before


# What -ffast-math says of sums, without its change of how this process treats denormals.
REORDERS = "-fassociative-math -fno-signed-zeros -freciprocal-math"


@pytest.mark.parametrize("flag", [REORDERS, "-ffp-contract=fast -mfma"])
def test_a_compiler_that_changes_arithmetic_is_caught(flag, monkeypatch) -> None:
    """The suite compares bits: code built with reordered or contracted arithmetic fails."""
    module = sys.modules["rushlight.backends.c.build"]
    flags = [f for f in module.FLAGS if f != "-ffp-contract=off"] + flag.split()
    compile_source = module.compile_source
    monkeypatch.setattr(module, "compile_source", lambda source: compile_source(source, flags))
    values = np.random.default_rng(0).standard_normal((3, 999)).astype(np.float32)

    def build():
        x = leaf(values)
        y = leaf(values * 1.7)
        return [ops.add(ops.mul(x, y), x), ops.sub(ops.add(x, y), x)]

    assert check(Case("planted", "arithmetic", "", build), "c").status == "failed"


def test_warnings_of_the_compiler_are_none() -> None:
    """Readable code has no unused or doubtful parts (but for names that only some kernels need)."""
    found = {}
    for name in ("softmax_rows", "dot", "sort", "attention", "scatter_rows"):
        source = text_of(name)
        done = subprocess.run(
            [CAPS.features.split("|")[0], "-std=gnu11", "-Wall", "-Wextra", "-Werror",
             "-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-unused-function",
             "-Wno-unknown-pragmas", "-fsyntax-only", "-x", "c", "-"],
            input=source, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            found[name] = done.stderr
    assert not found


def text_of(name: str) -> str:
    programs = programs_of([root for root in CASES[name].build() if not root.leaf])
    return BACKEND.lower_text(programs[0], CAPS)


def test_threads_do_not_change_bits() -> None:
    x = torch.randn(300, 700)

    def work() -> bytes:
        return torch.softmax(x @ x.t(), 1).sum(0).numpy().tobytes()

    seen = set()
    for threads in (1, 2, 3):
        with config.override(backend="c", num_threads=threads, cache=False):
            seen.add(work())
    with config.override(backend="llvm"):
        seen.add(work())
    assert len(seen) == 1
