"""An imitation of NVIDIA's driver API: memory of its own, kernels are functions of this process.

A "cubin" names a function of `kernels`; it is called with the words that a launch gives, once per
launch, and the number of groups.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

KINDS = ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
         "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
         "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")  # fmt: skip
OUT_OF_MEMORY, INVALID = 2, 1
TEXTS = {OUT_OF_MEMORY: b"out of memory", INVALID: b"invalid argument"}


class Driver:
    """`limit`: bytes of the imitated GPU; `log`: names of the calls."""

    CUdevice_attribute = SimpleNamespace(**{name: name for name in KINDS})
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=2)

    def __init__(self, kernels: dict[str, Callable[..., None]], limit: int = 1 << 28) -> None:
        self.kernels, self.limit = kernels, limit
        self.blocks: dict[int, np.ndarray] = {}
        self.log: list[str] = []
        self.recording: list | None = None
        self.values = dict(zip(KINDS, (9, 0, 132), strict=True))

    def cuInit(self, flags):
        return (0,)

    def cuDeviceGetCount(self):
        return 0, 1

    def cuDeviceGet(self, index):
        return 0, index

    def cuDevicePrimaryCtxRetain(self, device):
        return 0, "context"

    def cuCtxSetCurrent(self, context):
        return (0,)

    def cuDeviceGetName(self, size, device):
        return 0, b"Imitated GPU\0\0\0"

    def cuDeviceGetAttribute(self, which, device):
        return 0, self.values[which]

    def cuGetErrorString(self, status):
        return 0, TEXTS[status]

    # memory ----------------------------------------------------------------------------------

    def cuMemAlloc(self, nbytes):
        if sum(block.nbytes for block in self.blocks.values()) + nbytes > self.limit:
            return OUT_OF_MEMORY, None
        block = np.full(nbytes + 256, 0xA5, np.uint8)
        self.blocks[block.ctypes.data] = block
        return 0, block.ctypes.data

    def cuMemFree(self, place):
        del self.blocks[place]
        return (0,)

    def cuMemGetInfo(self):
        used = sum(block.nbytes for block in self.blocks.values())
        return 0, self.limit - used, self.limit

    def _move(self, to, source, nbytes):
        ctypes.memmove(int(to), int(source), nbytes)

    def cuMemcpyHtoDAsync(self, place, address, nbytes, stream):
        self.log.append("upload")
        return self._do(lambda: self._move(place, address, nbytes))

    def cuMemcpyDtoHAsync(self, address, place, nbytes, stream):
        self.log.append("download")
        return self._do(lambda: self._move(address, place, nbytes))

    # order -----------------------------------------------------------------------------------

    def _do(self, work):
        if self.recording is None:
            work()
        else:
            self.recording.append(work)
        return (0,)

    def cuStreamCreate(self, flags):
        return 0, "stream"

    def cuStreamSynchronize(self, stream):
        return (0,)

    def cuEventCreate(self, flags):
        return 0, [0.0]

    def cuEventRecord(self, event, stream):
        event[0] = float(len(self.log))
        return (0,)

    def cuEventSynchronize(self, event):
        return (0,)

    def cuEventElapsedTime(self, begin, end):
        return 0, end[0] - begin[0]

    def cuStreamBeginCapture(self, stream, mode):
        self.recording = []
        return (0,)

    def cuStreamEndCapture(self, stream):
        made, self.recording = self.recording, None
        return 0, made

    def cuGraphInstantiate(self, graph, flags):
        return 0, graph

    def cuGraphLaunch(self, graph, stream):
        for work in graph:
            work()
        return (0,)

    # kernels ---------------------------------------------------------------------------------

    def cuModuleLoadData(self, binary):
        return 0, "module"

    def cuModuleGetFunction(self, module, name):
        if name.decode() not in self.kernels:
            return INVALID, None
        return 0, name.decode()

    def cuFuncSetAttribute(self, function, which, value):
        self.log.append(f"{which} {value}")
        return (0,)

    def cuLaunchKernel(self, name, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        function = self.kernels[name]
        places = np.ctypeslib.as_array((ctypes.c_uint64 * function.words).from_address(parameters))
        words = [ctypes.c_uint64.from_address(int(at)).value for at in places]
        self.log.append(f"launch {name}")
        return self._do(lambda: function(words, gx))
