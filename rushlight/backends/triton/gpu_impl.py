"""Triton's kernels on an NVIDIA GPU, launched by our own driver calls: no tensor library is needed.

In: programs, plans. Out: loaded kernels, runs. Always true: inputs are copied to the GPU before a
run and results back after it; temporary values stay there. **Tested with an imitation of the
driver, not run on a GPU.**
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.run import GroupExecutable, GroupPlan, Launch, sizes_at
from rushlight.backends.products import Maker
from rushlight.backends.triton.compile_impl import compile_lowered
from rushlight.backends.triton.driver_impl import target_of
from rushlight.backends.triton.module_text import print_module
from rushlight.base.errors import BackendError
from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import Plan
from rushlight.compiler.tile.ir import Program
from rushlight.runtime.cuda_impl import Gpu, Kernel

# Triton gives every kernel two further pointers, for scratch of its own that these never want.
OWN_POINTERS = (0, 0)


@dataclass(frozen=True)
class Loaded:
    """A kernel of Triton's on the GPU."""

    kernel: Kernel
    threads: int

    def start(
        self, gpu: Gpu, groups: int, places: Sequence[Any], words: int, status: int, host: Any
    ) -> None:  # fmt: skip
        arguments = [*places, words, status, *OWN_POINTERS]
        gpu.launch(self.kernel, groups, self.threads, arguments)


def made_by(
    maker: Maker, program: Program, chip: str, decisions: tuple[Decision, ...] = ()
) -> GroupExecutable:
    """The executable of another maker: one launch, which cuts its grid itself."""
    kernel = c.Kernel(program.name, 1, 1, (), ())
    lowered = c.ThreadProgram(program, (kernel,), ())
    function = maker.build(program, chip)
    return GroupExecutable(program, lowered, (function,), "", b"", decisions)


def attach_to_gpu(programs: Sequence[c.ThreadProgram], gpu: Gpu) -> list[GroupExecutable]:
    """Triton's kernels compiled and loaded."""
    text = print_module(programs, narrow=True)
    compiled = iter(compile_lowered(programs, text, target_of(gpu)))
    made = []
    for one in programs:
        functions = []
        for kernel in one.kernels:
            found = next(compiled)
            if found.scratch_bytes:
                raise BackendError(f"backend triton: {kernel.name} wants scratch of Triton's own")
            loaded = gpu.load(found.binary, found.name, found.shared_bytes)
            functions.append(Loaded(loaded, found.threads))
        made.append(GroupExecutable(one.program, one, tuple(functions), text, text.encode()))
    return made


class GpuSession:
    """One run, on the default stream."""

    def __init__(
        self, gpu: Gpu, pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray,
        plan: Plan,
    ) -> None:  # fmt: skip
        self.gpu, self.pointers, self.nbytes, self.plan = gpu, pointers, nbytes, plan
        self.words = words
        self._places: dict[int, Any] = {}
        self._sizes = sizes_at(pointers, nbytes)
        self._owned: list[Any] = []
        self._status_host = np.zeros(1, np.int64)
        self._words = self._copied(words.ctypes.data, words.nbytes)
        self._status = self._copied(self._status_host.ctypes.data, 8)

    def _copied(self, address: int, nbytes: int) -> Any:
        place = self.gpu.allocate(nbytes)
        self._owned.append(place)
        self.gpu.upload(place, address, nbytes)
        return place

    def _key(self, number: int) -> int:
        """Buffers of the plan at one address are one in the GPU's memory."""
        return int(self.pointers[number]) if self.nbytes[number] else -1 - number

    def place(self, number: int) -> Any:
        key = self._key(number)
        if key not in self._places:
            size = self._sizes[key] if self.nbytes[number] else 0
            self._places[key] = self._copied(int(self.pointers[number]), size)
        return self._places[key]

    def launch(self, launch: Launch) -> None:
        places = [self.place(number) for number in launch.buffers]
        words = int(self._words) + 8 * launch.words.start
        host = self.words[launch.words]
        launch.function.start(self.gpu, launch.groups, places, words, int(self._status), host)

    def status(self) -> int:
        self.gpu.download(self._status_host.ctypes.data, self._status, 8)
        self.gpu.synchronize()
        return int(self._status_host[0])

    def to_host(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self._key(number) in self._places:
                place = self._places[self._key(number)]
                self.gpu.download(int(self.pointers[number]), place, self.nbytes[number])
        self.gpu.synchronize()

    def to_device(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.nbytes[number]:
                place = self.place(number)
                self.gpu.upload(place, int(self.pointers[number]), self.nbytes[number])

    def __del__(self) -> None:
        for place in self._owned:
            self.gpu.free(place)


def load_on_gpu(plan: Plan, gpu: Gpu) -> GroupPlan:
    def begin(
        pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray, plan: Plan
    ) -> GpuSession:
        return GpuSession(gpu, pointers, nbytes, words, plan)

    return GroupPlan(plan, begin)
