"""Contractions as test cases of the llvm backend: build one, compile one grid, run it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from rushlight.backends.llvm.build import attach
from rushlight.backends.llvm.caps import find_caps, split_target
from rushlight.backends.llvm.context import KernelContext
from rushlight.backends.llvm.dot import lower_dot_grid
from rushlight.backends.llvm.jit import compile_text
from rushlight.backends.llvm.schedule import DotSchedule
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.base.dtypes import float32
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program, Store
from rushlight.ir.scalar import acc, cast, load
from rushlight.ir.symint import Var
from rushlight.ir.symint_walk import evaluate
from tests.unit.backends.llvm_run import run

AVX512 = find_caps("", 2)
AVX2 = find_caps("-avx512f", 2)
GENERIC = find_caps("-avx", 2)
TARGETS = {"avx512": AVX512, "avx2": AVX2, "generic": GENERIC}


@dataclass
class Case:
    program: Program
    grid: DotGrid


def matmul(batch, m, n, k, ta=False, tb=False, dtype=float32, out=None, epilogue=None) -> Case:
    """[batch, m, k] @ [batch, k, n]; ta, tb: that operand's last two axes lie swapped in memory."""
    out = out or dtype.compute
    axes = [Axis(name, extent) for name, extent in zip("bmnk", (batch, m, n, k), strict=True)]
    b, i, j, p = (axis.var for axis in axes)
    left = Buffer("left", dtype, batch * m * k)
    right = Buffer("right", dtype, batch * k * n)
    result = Buffer("result", out, batch * m * n, "out")
    x = load(left, b * (m * k) + (p * m + i if ta else i * k + p))
    y = load(right, b * (k * n) + (j * k + p if tb else p * n + j))
    value = acc(dtype.compute)
    value = epilogue(value) if epilogue else value
    store = Store(result, b * (m * n) + i * n + j, cast(value, out))
    grid = DotGrid((axes[0],), *axes[1:], x, y, dtype.compute, (store,))
    sizes = tuple(e for e in (batch, m, n, k) if isinstance(e, Var))
    return Case(Program("mm", (left, right, result), (), sizes, (grid,)), grid)


def compile_case(case: Case, caps=AVX512, schedule=None):
    module = ir.Module("dot", context=ir.Context())
    launches, scratch = lower_dot_grid(
        lambda suffix: KernelContext(module, case.program, caps, f"kernel{suffix}"),
        case.program,
        case.grid,
        caps,
        schedule,
    )
    lowered = LlvmExecutable(case.program, tuple(launches), tuple(scratch))
    return attach([lowered], compile_text(str(module), split_target(caps.features), True))[0]


def inputs(case: Case, sizes=None, seed=0):
    random = np.random.default_rng(seed)
    arrays = []
    for buffer in case.program.buffers:
        count = buffer.size
        if not isinstance(count, int):
            count = evaluate(count, sizes or {})
        if buffer.dtype.is_floating_point:
            array = random.standard_normal(count).astype(buffer.dtype.np)
        else:
            info = np.iinfo(buffer.dtype.np)
            array = random.integers(info.min, info.max, count, buffer.dtype.np, endpoint=True)
        arrays.append(array if buffer.role != "out" else np.zeros_like(array))
    return arrays


def result_of(case: Case, caps=AVX512, schedule=None, arrays=None, sizes=None, split=1):
    arrays = [a.copy() for a in (arrays or inputs(case, sizes))]
    assert run(compile_case(case, caps, schedule), arrays, sizes, split=split) == 0
    return arrays[-1]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


OTHER_SCHEDULES = [
    DotSchedule(3, 1, 16, 6, 32, 7, False, False),
    DotSchedule(5, 3, 16, 10, 48, 16, True, False),
    DotSchedule(14, 2, 16, 28, 64, 33, False, True),
    DotSchedule(8, 2, 16, 8, 32, 1, True, True),
]
