"""Kernels on disk: another process finds them; damaged or foreign ones are built again."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rushlight.backends import find_backend
from rushlight.backends.llvm import build
from rushlight.backends.llvm.caps import Target
from rushlight.base.config import child_environment, config
from rushlight.base.dtypes import float32
from rushlight.compiler.target import Backend, Caps
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Map, Program, Store
from rushlight.engine import kernels
from rushlight.ir import scalar as s

SCRIPT = """
import numpy as np
import rushlight.ops as O
from rushlight.base.dtypes import float32
from rushlight.engine import kernels, realize
from rushlight.ir.node import buffer_node
from rushlight.runtime.buffer import allocate
import rushlight.backends.llvm as llvm
from dataclasses import replace
built = []
def build(programs, caps):
    built.extend(programs)
    return real(programs, caps)
real = llvm.BACKEND.build
llvm.BACKEND = replace(llvm.BACKEND, build=build)
memory = allocate(4 * 300 * 40)
memory.view(float32, (300, 40))[...] = np.arange(12000).reshape(300, 40) % 7
x = buffer_node(memory, (300, 40), float32)
out = realize.read(O.softmax(O.exp(O.dot(x, O.permute(x, (1, 0)))), 1))
total = realize.read(O.reduce_sum(O.gather_nd(x, [O.iota(300)]), (0, 1)))
print(len(built), out.tobytes().hex()[:64], float(total))
"""


def start_process(directory: Path) -> list[str]:
    environment = child_environment(RUSHLIGHT_CACHE_DIR=str(directory), RUSHLIGHT_CACHE="1")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split()


def test_a_second_process_builds_nothing(tmp_path: Path) -> None:
    first = start_process(tmp_path / "cache")
    second = start_process(tmp_path / "cache")
    assert int(first[0]) >= 3
    assert second == ["0", *first[1:]]


class Counting:
    """A backend that counts what it builds."""

    def __init__(self) -> None:
        self.real = find_backend("llvm")
        self.count = 0
        self.backend: Backend = replace(self.real, build=self.build)

    def build(self, programs: list[Program], caps: Caps) -> list:
        self.count += len(programs)
        return self.real.build(programs, caps)

    def get(self, *programs: Program, features: str = "") -> list:
        with config.override(cpu_features=features):
            caps = self.real.find()
        assert isinstance(caps, Caps)
        return kernels.build_kernels(programs, self.backend, caps)


def add_number(name: str, factor: float) -> Program:
    """y = x + factor"""
    x, y = Buffer("x", float32, 100), Buffer("y", float32, 100, "out")
    axis = Axis(name, 100)
    value = s.add(s.load(x, axis.var), s.const(factor, float32))
    grid = Grid((), (Map((axis,), (Store(y, axis.var, value),)),))
    return Program("add_number", (x, y), (), (), (grid,))


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    monkeypatch.setattr(kernels, "_BUILT", {})
    with config.override(cache_dir=str(tmp_path / "cache"), cache=True):
        yield Counting()


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(kernels, "_BUILT", {})


def test_equal_programs_are_built_once(counting: Counting) -> None:
    a, b, c = counting.get(add_number("i", 1.0), add_number("j", 1.0), add_number("i", 2.0))
    assert counting.count == 2
    assert a is b and a is not c


def test_kernels_come_from_disk(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    counting.get(add_number("i", 1.0))
    forget(monkeypatch)
    counting.get(add_number("j", 1.0))
    assert counting.count == 1


def test_another_target_has_kernels_of_its_own(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.get(add_number("i", 1.0))
    counting.get(add_number("i", 1.0), features="-avx512f")
    forget(monkeypatch)
    counting.get(add_number("i", 1.0), features="-avx512f")
    assert counting.count == 2


def test_changed_sources_find_nothing(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    counting.get(add_number("i", 1.0))
    forget(monkeypatch)
    monkeypatch.setattr(kernels, "source_hash", lambda: "another version")
    counting.get(add_number("i", 1.0))
    assert counting.count == 2


def entries() -> list[Path]:
    return [p for p in Path(config.cache_dir).rglob("*") if p.is_file()]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda data: b"", lambda data: b"\0" * 500])
def test_damaged_entries_are_rebuilt(
    damage, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.get(add_number("i", 1.0))
    files = entries()
    assert files
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    for expected in (2, 2):  # rebuilt and written again, then found
        forget(monkeypatch)
        counting.get(add_number("i", 1.0))
        assert counting.count == expected


def test_a_whole_entry_that_is_not_a_kernel_is_rebuilt(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checksum right, content not ours."""
    counting.get(add_number("i", 1.0))
    (key,) = kernels._BUILT
    disk = kernels.disk_cache()
    assert disk is not None
    for junk in (b"", b"{}", b"\x7fELF" + b"\0" * 60, np.random.default_rng(0).bytes(2000)):
        disk.put(key, junk)
        forget(monkeypatch)
        before = counting.count
        counting.get(add_number("i", 1.0))
        assert counting.count == before + 1


def test_nothing_is_written_when_the_cache_is_off(counting: Counting) -> None:
    with config.override(cache=False):
        counting.get(add_number("i", 3.0))
    assert entries() == []


@pytest.fixture
def caps() -> Caps:
    found = find_backend("llvm").find()
    assert isinstance(found, Caps)
    return found


def test_many_kernels_are_compiled_in_another_thread_and_are_the_same(
    caps: Caps, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [add_number("i", float(number)) for number in range(6)]
    alone = [build.build([program], caps)[0].object_bytes for program in programs]
    threads = set()
    compile_text = build.compile_text

    def noted(text: str, target: Target) -> bytes:
        threads.add(threading.current_thread().name)
        return compile_text(text, target)

    monkeypatch.setattr(build, "compile_text", noted)
    together = build.build(programs, caps)
    assert [executable.object_bytes for executable in together] == alone
    assert [executable.program for executable in together] == programs
    assert len(threads) == 1 and threads.pop().startswith("rushlight-compiler")


def test_a_compilation_that_fails_in_the_other_thread_is_an_error_here(
    caps: Caps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(text: str, target: Target) -> bytes:
        raise RuntimeError("LLVM refuses")

    monkeypatch.setattr(build, "compile_text", fails)
    with pytest.raises(RuntimeError, match="LLVM refuses"):
        build.build([add_number("i", 1.0), add_number("i", 2.0)], caps)
    assert not [t for t in threading.enumerate() if t.name.startswith("rushlight-compiler")]


def test_a_second_process_loads_nothing_that_makes_code(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "import rushlight as torch\n"
        "x = torch.ones(40, 30, requires_grad=True)\n"
        "torch.softmax(x @ x.T, 1).square().sum().backward()\n"
        "x.grad.numpy()\n"
        "makers = ('compiler.pipeline', 'backends.llvm.build', 'backends.llvm.body',\n"
        "          'engine.listen', 'engine.report', 'backends.llvm.context')\n"
        "print(sorted(m for m in makers if f'rushlight.{m}' in sys.modules))\n"
    )
    environment = child_environment(RUSHLIGHT_CACHE_DIR=str(tmp_path), CHECK="0")
    tmp_path.chmod(0o700)
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert "backends.llvm.build" in said[0] and "compiler.pipeline" in said[0]
    assert said[1] == "[]"
