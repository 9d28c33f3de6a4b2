"""CuTe kernels compiled on a machine that need not have a GPU.

In: a tile program, a chip. Out: PTX, cubin, and a function that launches the kernel where a GPU is;
or an object file and a header for C. Always true: what a kernel cannot do is refused before
anything is compiled.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rushlight.backends.cfamily.module_impl import load_module
from rushlight.backends.cute.chips import CHIPS
from rushlight.backends.cute.claims import Product
from rushlight.backends.cute.flash_claims import Attention
from rushlight.base.errors import BackendError
from rushlight.compiler.tile import ir

ALIGN = 16  # bytes
# (what, the chip's kernels) -> file
KERNELS = {
    ("gemm", "wgmma"): "gemm_impl", ("gemm", "umma"): "gemm_umma_impl",
    ("flash", "wgmma"): "flash_impl", ("flash", "umma"): "flash_umma_impl",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Compiled:
    """What CuTe made of a program.

    seconds   what the compilation took
    function  launches it: (*pointers, numbers, *sizes, stream)
    kinds     dtypes of the buffers, as CuTe calls them
    sizes     how many words of a launch are sizes
    """

    name: str
    ptx: str
    cubin: bytes
    seconds: float
    function: Any
    kinds: tuple[Any, ...]
    sizes: int

    def start(
        self, gpu: Any, groups: int, places: Sequence[Any], words: int, status: int, host: Any
    ) -> None:  # fmt: skip
        """Launch on the default stream. `places`: of its buffers; `host`: the words, as numbers."""
        import cutlass
        from cuda.bindings.driver import CUstream

        pointers = tuple(
            _pointer(kind, int(place)) for kind, place in zip(self.kinds, places, strict=True)
        )
        sizes = tuple(cutlass.Int32(int(word)) for word in host[: self.sizes] or (0,))
        self.function(*pointers, _pointer(cutlass.Int64, words), *sizes, CUstream(0))

    def export_to_c(self, folder: Path) -> tuple[Path, Path]:
        """(object file, header): the kernel and the function that launches it, for C and C++."""
        _load_runtime()
        self.function.export_to_c(str(folder), self.name, function_prefix=self.name)
        return folder / f"{self.name}.o", folder / f"{self.name}.h"


def compile_claimed(claimed: Product | Attention, chip: str) -> Compiled:
    """The kernel of what was claimed; ModuleNotFoundError without the extra `cute`."""
    epilogue: Any = importlib.import_module("rushlight.backends.cute.epilogue_impl")
    program, which = claimed.program, "flash" if isinstance(claimed, Attention) else "gemm"
    kernels = KERNELS[which, CHIPS[chip].kernels]
    return _compiled(program, chip, launcher(program, kernels), epilogue.work_of(claimed, chip))


HOST = """\
import cutlass
from cuda.bindings.driver import CUstream
from cutlass import cute
from rushlight.backends.cute.{kernels} import KERNELS
from rushlight.backends.cute.launch_impl import launch


@cute.jit
def start({pointers}, numbers: cute.Pointer, {sizes}, stream: CUstream, work: cutlass.Constexpr):
    launch(KERNELS, ({names},), numbers, ({size_names},), stream, work)
"""


def launcher(program: ir.Program, kernels: str) -> Any:
    """The host's side of a kernel, with a parameter for each buffer and size: C has no tuples."""
    names = [f"b{number}" for number in range(len(program.buffers))]
    sizes = [f"n{number}" for number in range(len(program.sizes) or 1)]
    text = HOST.format(
        kernels=kernels, pointers=", ".join(f"{name}: cute.Pointer" for name in names),
        sizes=", ".join(f"{name}: cutlass.Int32" for name in sizes), names=", ".join(names),
        size_names=", ".join(sizes),
    )  # fmt: skip
    return load_module(text).start


def _compiled(program: ir.Program, chip: str, launch: Any, work: Any) -> Compiled:
    import cutlass
    from cutlass import cute

    values: Any = importlib.import_module("rushlight.backends.cute.values_impl")
    kinds = tuple(values.STORED[buffer.dtype.name] for buffer in program.buffers)
    memories = tuple(_pointer(kind, 0) for kind in kinds)
    sizes = tuple(cutlass.Int32(1) for _ in program.sizes or (0,))  # never none: CuTe wants one
    began = time.perf_counter()
    with TemporaryDirectory() as folder:  # CuTe writes what it keeps to files, too
        made = cute.compile(
            launch, *memories, _pointer(cutlass.Int64, 0), *sizes, cute.runtime.make_fake_stream(),
            work,
            options=f"--gpu-arch {CHIPS[chip].arch} --keep-ptx --keep-cubin --dump-dir={folder}",
        )  # fmt: skip
        seconds = time.perf_counter() - began
        return Compiled(
            program.name, made.__ptx__, made.__cubin__, seconds, made, kinds, len(program.sizes)
        )


@functools.cache
def _load_runtime() -> None:
    """An object file is linked against CuTe's runtime, which only a launch would load."""
    cutlass: Any = importlib.import_module("cutlass")
    root = Path(cutlass.__file__).parents[2]
    for library in sorted(root.glob("cu*/lib/libcute_dsl_runtime.so")):
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        return
    raise BackendError(f"cute: no libcute_dsl_runtime.so in {root}")


def _pointer(kind: Any, address: int) -> Any:
    """To the GPU's memory; its allocator aligns to 256 bytes."""
    from cutlass import cute

    return cute.runtime.make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=ALIGN)
