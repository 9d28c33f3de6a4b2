"""GFLOP/s of the llvm backend's contractions beside numpy's, shape by shape, on one thread.

    OPENBLAS_NUM_THREADS=1 python benchmarks/kernels/dot.py [--features=-avx512f] [batch,m,n,k,tb]

`tb` 1: b lies as [n, k] (x @ w.T). Each figure is the best of a few runs, both in one process,
in CPU time of the thread (so other people on the machine count less).
Also printed: milliseconds to emit, and to compile; and the schedule.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable

import numpy as np
from llvmlite import ir

from rushlight.backends.llvm.caps import find_caps, split_target
from rushlight.backends.llvm.context import KernelContext
from rushlight.backends.llvm.dot import lower_dot_grid, plan_dot
from rushlight.backends.llvm.jit import Library, compile_text, load_object
from rushlight.backends.llvm.types import Launch
from rushlight.base.dtypes import float32
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program, Store
from rushlight.ir.scalar import acc, load

SHAPES = [
    (1, 1024, 1024, 1024, 0),
    (1, 1024, 1024, 1024, 1),
    (1, 2048, 256, 1024, 0),
    (1, 256, 1024, 2048, 1),
    (1, 1024, 1024, 8192, 1),
    (32, 256, 256, 64, 1),
    (32, 256, 64, 256, 0),
    (1, 1, 3072, 768, 0),
    (1, 1, 3072, 768, 1),
    (1, 1, 768, 3072, 1),
    (1, 8, 3072, 768, 1),
    (64, 64, 64, 64, 0),
    (4096, 8, 8, 8, 0),
    (1, 7, 5, 3, 0),
]
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 5)


def matmul(batch: int, m: int, n: int, k: int, tb: int) -> tuple[Program, DotGrid]:
    """[batch, m, k] @ [batch, k, n] in float32."""
    axes = [Axis(name, extent) for name, extent in zip("bmnk", (batch, m, n, k), strict=True)]
    b, i, j, p = (axis.var for axis in axes)
    left, right = Buffer("a", float32, batch * m * k), Buffer("b", float32, batch * k * n)
    out = Buffer("c", float32, batch * m * n, "out")
    x = load(left, b * (m * k) + i * k + p)
    y = load(right, b * (k * n) + (j * k + p if tb else p * n + j))
    stores = (Store(out, b * (m * n) + i * n + j, acc(float32)),)
    grid = DotGrid((axes[0],), *axes[1:], x, y, float32, stores)
    return Program("dot", (left, right, out), (), (), (grid,)), grid


def compile_dot(
    program: Program, grid: DotGrid, caps: Caps
) -> tuple[Launch, Library, float, float]:
    """The launch, its code, and the milliseconds to emit and to compile."""
    start = time.perf_counter()
    module = ir.Module("dot", context=ir.Context())
    (launch,), _ = lower_dot_grid(
        lambda suffix: KernelContext(module, program, caps, f"dot{suffix}"), program, grid, caps
    )
    text = str(module)
    emitted = time.perf_counter()
    data = compile_text(text, split_target(caps.features))
    library = load_object(data, [launch.symbol])
    done = time.perf_counter()
    return launch, library, (emitted - start) * 1e3, (done - emitted) * 1e3


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 64 bytes, as the runtime's buffers do."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    """CPU seconds of this thread."""
    run()
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
    return min(times)


def measure(shape: tuple[int, ...], caps: Caps) -> str:
    """One line of the table; raises if the result is wrong."""
    batch, m, n, k, tb = shape
    random = np.random.default_rng(0)
    a = aligned(random.standard_normal((batch, m, k), np.float32))
    b = aligned(random.standard_normal((batch, n, k) if tb else (batch, k, n), np.float32))
    c = aligned(np.zeros((batch, m, n), np.float32))
    program, grid = matmul(*shape)
    launch, library, emit_ms, compile_ms = compile_dot(program, grid, caps)
    pointers = np.array([x.ctypes.data for x in (a, b, c)], np.uint64)
    words = np.zeros(8, np.int64)
    local = aligned(np.zeros(launch.local_bytes + 64, np.uint8))
    kernel = KERNEL(library.addresses[launch.symbol])
    args = [x.ctypes.data for x in (pointers, words, words, local, words)]
    right = b.swapaxes(1, 2) if tb else b
    work = 2e-9 * batch * m * n * k
    repeats = 3 if work > 5 else 10
    ours = best_seconds(lambda: kernel(0, launch.instances, *args), repeats)
    numpys = best_seconds(lambda: a @ right, repeats)
    np.testing.assert_allclose(c, a @ right, rtol=1e-3, atol=1e-3)
    _, schedule = plan_dot(grid, split_target(caps.features), caps.threads)
    return (
        f"{shape!s:28} {work / ours:8.1f} {work / numpys:8.1f} {ours * 1e6:10.0f} us "
        f"{emit_ms:6.1f} {compile_ms:6.1f}  {schedule}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", default="", help="features to change, as -avx512f,-fma")
    parser.add_argument("shapes", nargs="*", help="batch,m,n,k,tb")
    options = parser.parse_args()
    caps = find_caps(options.features, 2)
    shapes = [tuple(map(int, s.split(","))) for s in options.shapes] or SHAPES
    print(f"{'batch, m, n, k, tb':28} {'GFLOP/s':>8} {'numpy':>8} {'time':>13} {'emit':>6} compile")
    for shape in shapes:
        print(measure(shape, caps), flush=True)


if __name__ == "__main__":
    main()
