"""Apple's Metal, through PyObjC (extra: `metal`, macOS only).

Checked by reading Apple's documentation, not run on Apple hardware: no such machine was at hand.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.backends.cfamily.run import GroupPlan, Launch, sizes_at
from rushlight.base.dtypes import uint8
from rushlight.base.errors import BackendError
from rushlight.compiler.host_calls import view
from rushlight.compiler.target import Missing, Plan

FIX = "use a Mac with `pip install 'rushlight[metal]'`, or RUSHLIGHT_METAL_EMULATION=1 for tests"


def find_device() -> str | Missing:
    """The device's name."""
    if sys.platform != "darwin":
        return Missing("Metal is on macOS only", FIX)
    if importlib.util.find_spec("Metal") is None:
        return Missing("pyobjc-framework-Metal is not installed", FIX)
    device = open_device()
    return Missing("this Mac has no Metal device", FIX) if device is None else str(device.name())


def find_matrices() -> int:
    """The side of matrices that SIMD groups multiply: simdgroup_matrix is there from Apple7 on
    (A14, M1)."""
    import Metal

    return 8 if open_device().supportsFamily_(Metal.MTLGPUFamilyApple7) else 1


@functools.cache
def open_device() -> Any:
    import Metal

    return Metal.MTLCreateSystemDefaultDevice()


@functools.cache
def command_queue() -> Any:
    return open_device().newCommandQueue()


def compile_pipelines(source: str, names: Sequence[str], made: Path | None = None) -> list[Any]:
    """One compute pipeline per kernel. `made`: a library of the text, compiled ahead of time."""
    library = _compiled(source) if made is None else _loaded(made)
    found = []
    for name in names:
        function = library.newFunctionWithName_(name)
        pipeline, error = open_device().newComputePipelineStateWithFunction_error_(function, None)
        if pipeline is None:
            raise BackendError(f"backend metal: no pipeline for {name}: {error}")
        found.append(pipeline)
    return found


def _compiled(source: str) -> Any:
    """No fast math: bits are the program's."""
    import Metal

    options = Metal.MTLCompileOptions.alloc().init()
    options.setFastMathEnabled_(False)
    library, error = open_device().newLibraryWithSource_options_error_(source, options, None)
    if library is None:
        raise BackendError(f"backend metal: the compiler failed: {error}")
    return library


def _loaded(made: Path) -> Any:
    import Foundation

    url = Foundation.NSURL.fileURLWithPath_(str(made))
    library, error = open_device().newLibraryWithURL_error_(url, None)
    if library is None:
        raise BackendError(f"backend metal: {made} cannot be loaded: {error}")
    return library


class MetalSession:
    """One run. Buffers are copies in shared memory; results are copied back at the end."""

    def __init__(
        self, pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray, plan: Plan
    ) -> None:
        self.pointers, self.nbytes, self.plan = pointers, nbytes, plan
        self._memory: dict[int, Any] = {}
        self._sizes = sizes_at(pointers, nbytes)
        self._words = self._new(words.tobytes())
        self._status = self._new(bytes(8))
        self._commands: Any = None

    def _new(self, data: bytes) -> Any:
        # 0: MTLResourceStorageModeShared
        return open_device().newBufferWithBytes_length_options_(data, max(len(data), 8), 0)

    def _host(self, number: int) -> np.ndarray:
        return view(int(self.pointers[number]), uint8, self.nbytes[number])

    def memory(self, number: int) -> Any:
        """Buffers at one address share their memory."""
        address = int(self.pointers[number]) if self.nbytes[number] else -1 - number
        if address not in self._memory:
            whole = view(address, uint8, self._sizes[address]) if self.nbytes[number] else None
            self._memory[address] = self._new(bytes(8) if whole is None else whole.tobytes())
        return self._memory[address]

    def launch(self, launch: Launch) -> None:
        import Metal

        if self._commands is None:
            self._commands = command_queue().commandBuffer()
        encoder = self._commands.computeCommandEncoder()
        encoder.setComputePipelineState_(launch.function)
        for position, number in enumerate(launch.buffers):
            encoder.setBuffer_offset_atIndex_(self.memory(number), 0, position)
        count = len(launch.buffers)
        encoder.setBuffer_offset_atIndex_(self._words, 8 * launch.words.start, count)
        encoder.setBuffer_offset_atIndex_(self._status, 0, count + 1)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(
            Metal.MTLSizeMake(launch.groups, 1, 1), Metal.MTLSizeMake(launch.kernel.threads, 1, 1)
        )
        encoder.endEncoding()

    def status(self) -> int:
        self._finish()
        return int(np.frombuffer(self._status.contents().as_buffer(8), np.int64)[0])

    def _finish(self) -> None:
        if self._commands is not None:
            self._commands.commit()
            self._commands.waitUntilCompleted()
            self._commands = None

    def to_host(self, numbers: Iterable[int]) -> None:
        self._finish()
        for number in numbers:
            count = self.nbytes[number]
            if count:
                contents = self.memory(number).contents().as_buffer(count)
                self._host(number)[:] = np.frombuffer(contents, np.uint8)

    def to_device(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            count = self.nbytes[number]
            if count:
                contents = self.memory(number).contents().as_buffer(count)
                np.frombuffer(contents, np.uint8)[:] = self._host(number)


def load_on_device(plan: Plan) -> GroupPlan:
    return GroupPlan(plan, MetalSession)
