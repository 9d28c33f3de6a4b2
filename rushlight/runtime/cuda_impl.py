"""NVIDIA's driver API without PyTorch: memory, streams, events, launches, graphs.

In: numbers of GPUs, addresses, cubins. Out: handles. Always true: cuda-bindings (extra: `cuda`) is
imported when a GPU is asked for; every call is checked, and its error named. **Tested with an
imitation of the driver, not run on a GPU.**

    gpu = open_gpu(0)                      # a Gpu, or the text of what is missing
    place = gpu.allocate(1024)
    gpu.upload(place, address, 1024)
    kernel = gpu.load(cubin, "add", shared_bytes=0)
    gpu.launch(kernel, groups=8, threads=128, arguments=[place])
    gpu.synchronize()
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.base.errors import BackendError

FIX = "pip install 'rushlight[cuda]', and the driver of an NVIDIA GPU"
STATIC_SHARED = 48 << 10  # a kernel that wants more must say so
DEFAULT_STREAM = 0


@dataclass(frozen=True)
class Kernel:
    """A loaded function. `module` keeps its code there."""

    name: str
    handle: Any
    shared_bytes: int
    module: Any


class Graph:
    """Launches that were recorded, as one."""

    def __init__(self, gpu: Gpu, handle: Any) -> None:
        self.gpu = gpu
        self.handle = gpu.call("cuGraphInstantiate", handle, 0)

    def launch(self, stream: Any = DEFAULT_STREAM) -> None:
        self.gpu.call("cuGraphLaunch", self.handle, stream)


class Gpu:
    """One GPU and its primary context, which all libraries of a process share."""

    def __init__(self, driver: Any, index: int) -> None:
        self.driver, self.index = driver, index
        self.device = self.call("cuDeviceGet", index)
        self.context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.name = _text(self.call("cuDeviceGetName", 256, self.device))
        self.capability = (self._attribute("COMPUTE_CAPABILITY_MAJOR"),
                           self._attribute("COMPUTE_CAPABILITY_MINOR"))  # fmt: skip
        self.multiprocessors = self._attribute("MULTIPROCESSOR_COUNT")

    def call(self, name: str, *arguments: Any) -> Any:
        """A function of the driver API; its result, or a BackendError with the driver's words."""
        found = getattr(self.driver, name)(*arguments)
        status, *results = found if isinstance(found, tuple) else (found,)
        if int(status) != 0:
            _, text = self.driver.cuGetErrorString(status)
            raise BackendError(f"CUDA: {name} on GPU {self.index}: {_text(text)}")
        return results[0] if len(results) == 1 else tuple(results) or None

    def _attribute(self, name: str) -> int:
        which = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", which, self.device))

    # memory -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Any:
        """Memory of the GPU, aligned to 256 bytes."""
        return self.call("cuMemAlloc", max(nbytes, 8))

    def free(self, place: Any) -> None:
        self.call("cuMemFree", place)

    def upload(self, place: Any, address: int, nbytes: int, stream: Any = DEFAULT_STREAM) -> None:
        """From the host's memory to the GPU's."""
        if nbytes:
            self.call("cuMemcpyHtoDAsync", place, address, nbytes, stream)

    def download(self, address: int, place: Any, nbytes: int, stream: Any = DEFAULT_STREAM) -> None:
        """From the GPU's memory to the host's. Done when the stream is."""
        if nbytes:
            self.call("cuMemcpyDtoHAsync", address, place, nbytes, stream)

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return self.call("cuMemGetInfo")

    # order --------------------------------------------------------------------------------------

    def stream(self) -> Any:
        """A new order of commands, which waits for no other."""
        return self.call("cuStreamCreate", int(self.driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def synchronize(self, stream: Any = DEFAULT_STREAM) -> None:
        """Wait for all commands of a stream."""
        self.call("cuStreamSynchronize", stream)

    def event(self, stream: Any = DEFAULT_STREAM) -> Any:
        """A point in a stream's order."""
        made = self.call("cuEventCreate", 0)
        self.call("cuEventRecord", made, stream)
        return made

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """Between two events; waits for the later."""
        self.call("cuEventSynchronize", end)
        return float(self.call("cuEventElapsedTime", begin, end))

    @contextmanager
    def capture(self, stream: Any) -> Iterator[list[Graph]]:
        """Commands given to the stream in here are recorded, not run; the list gets the graph."""
        made: list[Graph] = []
        mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.call("cuStreamBeginCapture", stream, mode)
        try:
            yield made
        finally:
            handle = self.call("cuStreamEndCapture", stream)
        made.append(Graph(self, handle))

    # kernels ------------------------------------------------------------------------------------

    def load(self, binary: bytes, name: str, shared_bytes: int) -> Kernel:
        """A kernel of a cubin (or PTX, with a zero at its end)."""
        module = self.call("cuModuleLoadData", binary)
        handle = self.call("cuModuleGetFunction", module, name.encode())
        if shared_bytes > STATIC_SHARED:
            which = self.driver.CUfunction_attribute
            most = which.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", handle, most, shared_bytes)
        return Kernel(name, handle, shared_bytes, module)

    def launch(
        self, kernel: Kernel, groups: int, threads: int, arguments: Sequence[Any],
        stream: Any = DEFAULT_STREAM,
    ) -> None:  # fmt: skip
        """`arguments`: all are words of eight bytes, mostly places in the GPU's memory."""
        words = np.array([int(argument) for argument in arguments], np.uint64)
        addresses = words.ctypes.data + 8 * np.arange(len(words), dtype=np.uint64)
        self.call(
            "cuLaunchKernel", kernel.handle, groups, 1, 1, threads, 1, 1, kernel.shared_bytes,
            stream, addresses.ctypes.data, 0,
        )  # fmt: skip


def _text(found: Any) -> str:
    return found.decode().rstrip("\0") if isinstance(found, bytes) else str(found)


@functools.cache
def open_gpu(index: int = 0) -> Gpu | str:
    """A GPU of this machine, or why there is none."""
    try:
        found = importlib.util.find_spec("cuda.bindings")
    except ModuleNotFoundError:
        found = None
    if found is None:
        return f"cuda-bindings is not installed ({FIX})"
    return open_with(lambda: importlib.import_module("cuda.bindings.driver"), index)


def open_with(driver: Callable[[], Any], index: int) -> Gpu | str:
    """As above, for a driver API that is there (or an imitation of it)."""
    try:
        api = driver()
        status, count = _first(api)
    except Exception as error:  # the library of the driver is not there, or too old
        return f"no CUDA driver: {str(error).splitlines()[0]} ({FIX})"
    if status:
        return f"the CUDA driver says: {status} ({FIX})"
    if index >= count:
        return f"no GPU number {index}: there are {count}"
    try:
        return Gpu(api, index)
    except BackendError as error:
        return str(error)


def _first(api: Any) -> tuple[str, int]:
    """What is wrong with the driver, or ""; how many GPUs there are."""
    (status,) = api.cuInit(0)
    if int(status) == 0:
        status, count = api.cuDeviceGetCount()
        if int(status) == 0:
            return "", count
    _, text = api.cuGetErrorString(status)
    return _text(text), 0
