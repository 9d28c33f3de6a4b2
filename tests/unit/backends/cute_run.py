"""CuTe kernels run on imitated hardware: rushlight/testing/ptx.

TMA's maps are made by CuTe's host code, which needs a driver. Here they are made again from what
was claimed and from the tiles' sizes; that the bytes of all boxes are what the kernel's barriers
expect, and that the patterns are those of the descriptors, is checked by the run.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from rushlight.backends.cute.chips import CHIPS
from rushlight.backends.cute.claims import Matrix
from rushlight.backends.cute.flash_claims import Attention
from rushlight.backends.cute.maker import build, require
from rushlight.base.dtypes import bfloat16
from rushlight.compiler.target import Backend, Caps, KernelCall, Plan
from rushlight.compiler.tile.ir import Buffer, Program
from rushlight.engine import watch
from rushlight.engine.check import find_difference
from rushlight.ir.symint_math import product
from rushlight.testing.ptx import TensorMap, parse, run

COUNT = itertools.count()
PATTERNS = (64, 32, 16, 8)  # elements: the widest that fits is what CuTe takes


@dataclass
class Launch:
    """A kernel of a module, TMA's maps, the groups."""

    kernel: int
    maps: list[TensorMap]
    groups: list[tuple[int, int, int]]


def map_of(
    program: Program, one: Matrix, sizes: Sequence[Any], tile: Sequence[int], batch: int
) -> TensorMap:
    """A map for (rows, k) of `sizes`, cut into `tile`s."""
    names = [buffer.name for buffer in program.buffers]
    order = (1, 0) if one.is_k_major else (0, 1)
    extents, cut = [sizes[n] for n in order], [tile[n] for n in order]
    strides = [(one.across, one.along)[n] for n in order]
    box = [next(x for x in PATTERNS if cut[0] % x == 0), cut[1]]
    if batch > 1:
        extents.append(batch // one.share if one.lead != 0 else 1)
        strides.append(one.lead)
        box.append(1)
    return TensorMap(
        names.index(one.buffer.name), one.offset, tuple(extents), tuple(strides), tuple(box)
    )  # fmt: skip


def launches_of(claimed: Any, chip: str) -> list[Launch]:
    """What its host code does."""
    program, grid, made = claimed.program, claimed.grid, CHIPS[chip]
    batch = int(product(axis.extent for axis in grid.batch))
    if isinstance(claimed, Attention):
        return [
            Launch(
                number,
                [map_of(program, x.matrix, (x.rows, x.columns), x.tile, batch) for x in s.operands],
                [(n, 0, one) for n in range(-(-s.owner.extent // s.rows)) for one in range(batch)],
            )
            for number, s in enumerate(claimed.sides)
        ]
    m, n, k = (axis.extent for axis in (grid.m, grid.n, grid.k))
    maps = [
        map_of(program, claimed.a, (m, k), (made.bm, made.bk), batch),
        map_of(program, claimed.b, (n, k), (made.bn, made.bk), batch),
    ]
    groups = [
        (row, column, one)
        for row in range(-(-m // made.bm)) for column in range(-(-n // made.bn))
        for one in range(batch)
    ]  # fmt: skip
    return [Launch(0, maps, groups)]


def run_kernels(
    program: Program, chip: str, arrays: Sequence[np.ndarray], words: np.ndarray,
    seed: int | None = None, ptx: str | None = None,
) -> None:  # fmt: skip
    """All groups of a program's kernels; the arrays of buffers that are written change."""
    claimed = require(program, chip)
    kernels = parse(ptx or build(program, chip).ptx)
    launches = launches_of(claimed, chip)
    assert len(kernels) == len(launches)
    for launch in launches:
        for group in launch.groups:
            run(kernels[launch.kernel], arrays, launch.maps, words, group, seed)


@dataclass
class Ran:
    """A tile program as the llvm backend ran it: arrays of its buffers before and after, words."""

    program: Program
    before: list[np.ndarray]
    after: list[np.ndarray]
    words: np.ndarray


class Recorder:
    """Plans of the llvm backend, run call by call and looked at."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.ran = backend, []

    def load(self, plan: Plan, caps: Caps) -> Recorded:
        return Recorded(self, plan, caps)


class Recorded:
    def __init__(self, recorder: Recorder, plan: Plan, caps: Caps) -> None:
        self.recorder, self.plan = recorder, plan
        self.calls = [
            (call, recorder.backend.load(replace(plan, regions=((call,),)), caps))
            for region in plan.regions for call in region
        ]  # fmt: skip

    def run(self, pointers: Any, ints: np.ndarray, numbers: Sequence[Any]) -> int:
        for call, loaded in self.calls:
            arrays: list[np.ndarray] = []
            if isinstance(call, KernelCall) and not call.ints:
                arrays = [_array(b, pointers[n]) for b, n in _buffers(call)]
            before = [x.copy() for x in arrays]
            status = loaded.run(pointers, ints, numbers)
            if status:
                return status
            if arrays:
                words = _words(call, numbers)
                after = [x.copy() for x in arrays]
                self.recorder.ran.append(Ran(call.executable.program, before, after, words))
        return 0


def _buffers(call: KernelCall) -> list[tuple[Buffer, int]]:
    return list(zip(call.executable.program.buffers, call.buffers, strict=False))


def _array(buffer: Buffer, address: int) -> np.ndarray:
    assert isinstance(buffer.size, int)
    count = buffer.size * buffer.dtype.itemsize
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(int(address))).view(
        buffer.dtype.np
    )


def _words(call: KernelCall, numbers: Sequence[Any]) -> np.ndarray:
    """What a launch writes: scalars as bits in words of 8 bytes."""
    words = np.zeros(max(1, len(call.scalars)), np.int64)
    for at, (param, slot) in enumerate(
        zip(call.executable.program.params, call.scalars, strict=True)
    ):
        value = np.array([numbers[slot]], param.dtype.np)
        words[at] = value.view(f"i{value.itemsize}")[0]
    return words


def ran_by_llvm(work: Callable[[], Any]) -> list[Ran]:
    """The tile programs that some code runs, with what they were given and what they made."""
    llvm: Any = importlib.import_module("rushlight.backends.llvm")
    recorder, family = Recorder(llvm.BACKEND), f"cute_run {next(COUNT)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            llvm, "BACKEND", replace(llvm.BACKEND, load=recorder.load, dump=None, restore=None)
        )
        # Programs of its own: what ran before would make sizes variables, or leave nothing to load.
        patch.setattr(watch, "program_family", lambda: family)
        work()
    return recorder.ran


def check_ran(ran: Ran, chip: str, seed: int | None = None, ptx: str | None = None) -> None:
    """The CuTe kernel of what ran gives what llvm gave."""
    arrays = [x.copy() for x in ran.before]
    for buffer, array in zip(ran.program.buffers, arrays, strict=True):
        if buffer.role == "out":
            array.view(np.uint8)[:] = 0xFF
    run_kernels(ran.program, chip, arrays, ran.words, seed, ptx)
    for buffer, own, wanted in zip(ran.program.buffers, arrays, ran.after, strict=True):
        if buffer.role != "in":
            found = find_difference(wanted, own, bfloat16)  # one rounding to it may differ
            assert not found, (buffer.name, found)
