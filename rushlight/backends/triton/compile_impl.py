"""Kernels compiled for GPUs that need not be here: PTX and cubin for NVIDIA, ISA and hsaco for AMD.

In: a program and a target's name. Out: per kernel what its compiler made. Always true: products and
sums are not contracted, so results do not depend on the target's compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.module_impl import load_module
from rushlight.backends.triton.driver_impl import caps_of
from rushlight.backends.triton.flash import FlashKernel
from rushlight.backends.triton.module_text import lowered, print_module
from rushlight.backends.triton.space import AnySchedule
from rushlight.backends.triton.tiles import TileKernel
from rushlight.base.dtypes import DType, int64
from rushlight.compiler.tile.ir import Program

# (backend of Triton, its name of the chip, threads of a warp)
TARGETS: dict[str, tuple[str, int | str, int]] = {
    "sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "sm_100": ("cuda", 100, 32),
    "gfx942": ("hip", "gfx942", 64), "gfx1100": ("hip", "gfx1100", 32),
}  # fmt: skip
_BITS = {"float": "fp", "int": "i", "uint": "u", "bool": "u"}
ALIGNED = 16  # bytes: all memory is that of the allocator


@dataclass(frozen=True)
class Compiled:
    """One kernel for one chip. `assembly`: PTX, or AMD's; `binary`: cubin or hsaco;
    `scratch_bytes`: memory of Triton's own that it wants."""

    name: str
    threads: int
    shared_bytes: int
    assembly: str
    binary: bytes
    scratch_bytes: int = 0


def compile_for(
    programs: Sequence[Program], target: str, wanted: AnySchedule | None = None
) -> list[Compiled]:
    """Every kernel of the programs, for a chip of TARGETS. `wanted`: how products are cut."""
    found = lowered(programs, caps_of(target), wanted)
    return compile_lowered(found, print_module(found, narrow=True), target)


def compile_lowered(programs: Sequence[c.ThreadProgram], text: str, target: str) -> list[Compiled]:
    """Every kernel of thread programs, whose module is `text`."""
    module = load_module(text)
    return [
        _compile(vars(module)[kernel.name], one, kernel, target)
        for one in programs
        for kernel in one.kernels
    ]


def _compile(function: Any, program: c.ThreadProgram, kernel: c.Kernel, target: str) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    backend, chip, warp = TARGETS.get(target) or ("cuda", int(target.removeprefix("sm_")), 32)
    dtypes = [m.dtype for m in (*program.program.buffers, *program.scratch)] + [int64, int64]
    names = function.arg_names
    source = ASTSource(
        fn=function,
        signature={n: f"*{_kind(d)}" for n, d in zip(names, dtypes, strict=True)},
        constexprs={},
        attrs={(i,): [["tt.divisibility", ALIGNED]] for i in range(len(names))},
    )
    options = {"num_warps": max(1, kernel.threads // warp), "enable_fp_fusion": False}
    if isinstance(kernel, (TileKernel, FlashKernel)):
        options["num_stages"] = kernel.schedule.stages
    made = triton.compile(source, target=GPUTarget(backend, chip, warp), options=options)
    text, binary = ("ptx", "cubin") if backend == "cuda" else ("amdgcn", "hsaco")
    return Compiled(
        kernel.name, warp * made.metadata.num_warps, made.metadata.shared, made.asm[text],
        made.asm[binary], made.metadata.global_scratch_size,
    )  # fmt: skip


def _kind(dtype: DType) -> str:
    bits = 8 * dtype.itemsize
    if dtype.is_floating_point and bits < 32:
        return f"u{bits}"  # carried as bits
    return f"{_BITS[dtype.kind]}{bits}"
