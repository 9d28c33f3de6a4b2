"""Run executables of the llvm backend on numpy arrays, one thread, without the runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.ir.symint_walk import evaluate

KERNEL = ctypes.CFUNCTYPE(
    None,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


def aligned(size: int) -> np.ndarray:
    """`size` bytes that start at a multiple of 64."""
    raw = np.full(size + 64, 0xA5, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def run(
    executable: LlvmExecutable,
    arrays: Sequence[np.ndarray],
    sizes: Mapping[str, int] | None = None,
    params: Mapping[str, object] | None = None,
    split: int = 1,
    panels: Sequence[int] = (),
) -> int:
    """Run all launches (each in `split` parts); the status word. panels: of operands that stay
    packed, if there are any."""
    program, sizes, params = executable.program, sizes or {}, params or {}
    scratch = [np.full(max(1, evaluate(n, sizes)), 0x5A, d.np) for d, n in executable.scratch]
    none = [*panels] or [0] * (1 + sum(len(launch.keeps) for launch in executable.launches))
    pointers = np.array([a.ctypes.data for a in (*arrays, *scratch)] + none, np.uint64)
    ints = np.array([sizes[v.name] for v in program.sizes] + [0], np.int64)
    slots = np.zeros(8 * len(program.params) + 8, np.uint8)
    for n, param in enumerate(program.params):
        bits = np.array([params[param.name]], param.dtype.np).view(np.uint8)
        slots[8 * n : 8 * n + bits.size] = bits
    status = np.zeros(1, np.int64)
    for launch in executable.launches:
        local = aligned(evaluate(launch.local_bytes, sizes) + 64)
        count = evaluate(launch.instances, sizes)
        edges = [count * n // split for n in range(split + 1)]
        for low, high in zip(edges[:-1], edges[1:], strict=True):
            args = (pointers, ints, slots, local, status)
            KERNEL(launch.address)(low, high, *(a.ctypes.data for a in args))
    return int(status[0])
