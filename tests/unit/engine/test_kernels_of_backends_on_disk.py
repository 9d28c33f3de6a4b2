"""Kernels on disk of backends that lower a program again when one comes back."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.backends.c import caps as c_caps
from rushlight.backends.metal import caps as metal_caps
from rushlight.base import sources
from rushlight.base.config import child_environment, config
from rushlight.base.errors import RefusedError
from rushlight.compiler.target import Caps, Missing
from rushlight.engine import kernels, programs, realize
from rushlight.runtime import cache

NAMES = ("c", "opencl", "metal")


class Builds:
    """Counts the programs that a backend builds; `forget` makes this a new process."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.monkeypatch, self.count = name, monkeypatch, 0
        self.real = find_backend(name)
        self.change()
        self.forget()

    def change(self, **caps: object) -> None:
        """The same machine, but for some of its capabilities."""

        def find() -> Caps | Missing:
            found = self.real.find()
            return found if isinstance(found, Missing) else replace(found, **caps)

        module = importlib.import_module(f"rushlight.backends.{self.name}")
        changed = replace(self.real, build=self.build, find=find)
        self.monkeypatch.setattr(module, "BACKEND", changed)

    def build(self, wanted: list, caps: Caps) -> list:
        self.count += len(wanted)
        return self.real.build(wanted, caps)

    def forget(self) -> None:
        self.monkeypatch.setattr(kernels, "_BUILT", {})
        self.monkeypatch.setattr(realize, "PROGRAMS", programs.ProgramCache())

    def of(self, run) -> int:
        before = self.count
        run()
        return self.count - before


@pytest.fixture(params=NAMES)
def builds(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Builds]:
    found = find_backend(request.param).find()
    if isinstance(found, Missing):
        pytest.skip(f"{request.param}: {found.reason}")
    with config.override(
        cache_dir=str(tmp_path / "cache"), cache=True, check=0, backend=request.param
    ):
        yield Builds(request.param, monkeypatch)


def softmax() -> None:
    values = np.arange(240, dtype=np.float32).reshape(6, 40) % 7
    found = torch.softmax(torch.tensor(values), -1).sum(0).numpy()
    powers = np.exp(values)
    wanted = (powers / powers.sum(-1, keepdims=True)).sum(0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_they_come_back_and_compute(builds: Builds) -> None:
    assert builds.of(softmax) > 0
    builds.forget()
    assert builds.of(softmax) == 0


def test_another_machine_has_kernels_of_its_own(builds: Builds) -> None:
    """What a kernel was lowered for must be what it is lowered for again."""
    built = builds.of(softmax)
    for caps in ({"groups": 5}, {"most_groups": 7}, {"shared_bytes": 4 << 10}):
        builds.change(**caps)
        builds.forget()
        assert builds.of(softmax) == built, caps


JUNK = (b"", b"{}", b"\x7fELF" + b"\0" * 60, np.random.default_rng(0).bytes(2000))


@pytest.mark.parametrize("junk", JUNK, ids=["nothing", "text", "header", "noise"])
def test_what_is_no_kernel_is_built_again(builds: Builds, junk: bytes) -> None:
    """Its checksum is right: another version of a driver or of a library wrote it."""
    built = builds.of(softmax)
    disk = cache.disk_cache()
    for key in list(kernels._BUILT):
        disk.put(key, junk)
    for count in (built, 0):
        builds.forget()
        assert builds.of(softmax) == count


def test_a_kernel_of_another_name_is_built_again(builds: Builds) -> None:
    built = builds.of(softmax)
    disk = cache.disk_cache()
    binary = builds.real.dump(next(iter(kernels._BUILT.values())))
    builds.forget()
    (torch.ones(3) * torch.arange(3.0)).cos().tolist()
    (key,) = kernels._BUILT
    disk.put(key, binary)
    builds.forget()
    assert builds.of(lambda: (torch.ones(3) * torch.arange(3.0)).cos().tolist()) == 1
    builds.forget()
    assert builds.of(softmax) == 0 < built


def test_a_folder_that_cannot_be_written_is_read(builds: Builds, monkeypatch) -> None:
    built = builds.of(softmax)

    def refusing(real):
        def call(path, *rest, **more):
            if str(path).startswith(str(config.cache_dir)):
                raise OSError(30, "Read-only file system")
            return real(path, *rest, **more)

        return call

    for name in ("open", "utime", "mkdir"):
        monkeypatch.setattr(cache.os, name, refusing(getattr(os, name)))
    builds.forget()
    assert builds.of(softmax) == 0 < built
    builds.forget()
    assert builds.of(lambda: torch.ones(5).sinh().tolist()) > 0
    builds.forget()
    assert builds.of(lambda: torch.ones(5).sinh().tolist()) > 0, "nothing could be written"


def test_the_emulation_of_metal_is_one_of_this_compiler_and_cpu(monkeypatch) -> None:
    with config.override(metal_emulation=True):
        if metal_caps.find_compiler() is None:
            pytest.skip("no C++ compiler")
        before = metal_caps.find().features
        monkeypatch.setattr(metal_caps, "cpu_flags", lambda: "another CPU")
        other = metal_caps.find().features
        monkeypatch.setattr(metal_caps, "version_of", lambda command: "another version")
        assert len({before, other, metal_caps.find().features}) == 3
    assert c_caps.cpu_flags() in before


def test_files_that_are_not_python_count_as_sources(tmp_path: Path, monkeypatch) -> None:
    """The emulation of Metal is a header of C++."""
    header = Path(metal_caps.__file__).parent / "emulation" / "metal_stdlib"
    assert header.exists()
    found = {entry.path for entry in sources._below(str(Path(metal_caps.__file__).parent))}
    assert str(header) in found
    assert not [path for path in found if path.endswith((".pyc", ".md"))]


TWO = """
import sys, rushlight as torch
x = torch.arange(12000.0).reshape(300, 40) % 7
print(torch.softmax(x @ x.T / 50, 1).sum(0).numpy().tobytes().hex()[:400])
"""


@pytest.mark.parametrize("name", NAMES)
def test_processes_at_once_share_a_folder(name: str, tmp_path: Path) -> None:
    found = find_backend(name).find()
    if isinstance(found, Missing):
        pytest.skip(f"{name}: {found.reason}")
    environment = {**os.environ, **child_environment(
        RUSHLIGHT_CACHE_DIR=str(tmp_path / "cache"), RUSHLIGHT_CACHE="1", RUSHLIGHT_BACKEND=name
    )}  # fmt: skip
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TWO], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(3)
    ]
    said = [one.communicate()[0] for one in running]
    assert not any(one.returncode for one in running) and len(set(said)) == 1 and said[0]


def test_one_refused_program_is_enough_whatever_others_are_called() -> None:
    """Two programs of a plan may have one name; each is asked."""
    named = [SimpleNamespace(name="map_where", bad=bad) for bad in (["no bool"], [], ["no int8"])]
    backend = SimpleNamespace(name="some", refuse=lambda program, caps: program.bad)
    with pytest.raises(RefusedError) as seen:
        kernels.refuse_early(named, backend, None)
    assert seen.value.reasons == ("no bool", "no int8")
    kernels.refuse_early(named[1:2], backend, None)
