"""Compiling one product of matrices for an NVIDIA GPU that need not be here: CuTe DSL, Triton.

The tile program is one and the same; what is timed goes from it to the cubin. The first repetition
imports the code generator and is told apart; nothing is taken from a cache. PyTorch is no part.
"""

import importlib
import importlib.util
import os
import tempfile
from types import ModuleType
from typing import Any

from workloads import Case

TITLE = "tile program to cubin for sm_90, 4096 x 4096 x 4096, no GPU needed"
SIZE = 4096
CHIP = "sm_90"


def cases():
    return {
        f"{maker} {dtype}": {"maker": maker, "dtype": dtype}
        for dtype in ("float16", "bfloat16")
        for maker in ("cute", "triton")
    }


def build(torch, maker, dtype):
    if torch.__name__ != "rushlight":
        raise NotImplementedError("compiles Rushlight's tile programs")
    needs = {"cute": "cutlass", "triton": "triton"}[maker]
    if importlib.util.find_spec(needs) is None:
        raise NotImplementedError(f"{needs} is not installed here")
    program = gemm_program(dtype)
    return Case({"cute": cute, "triton": triton}[maker](program))


def gemm_program(dtype: str) -> Any:
    """out = a @ b.T, summed in float32, all of `dtype`."""
    ir, s, dtypes = map(load, ("compiler.tile.ir", "ir.scalar", "base.dtypes"))
    kind, whole = getattr(dtypes, dtype), SIZE * SIZE
    a, b = (ir.Buffer(name, kind, whole) for name in ("a", "b"))
    out = ir.Buffer("out", kind, whole, "out")
    m, n, k = (ir.Axis(name, SIZE) for name in ("m", "n", "k"))
    store = ir.Store(out, m.var * SIZE + n.var, s.cast(s.acc(dtypes.float32), kind))
    operands = [s.load(x, row.var * SIZE + k.var) for x, row in ((a, m), (b, n))]
    grid = ir.DotGrid((), m, n, k, *operands, dtypes.float32, (store,))
    return ir.Program(f"gemm{dtype}", (a, b, out), (), (), (grid,))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"rushlight.{name}")


def cute(program: Any):
    def run():
        return [float(len(load("backends.cute.maker").build(program, CHIP).cubin))]

    return run


def triton(program: Any):
    cache = tempfile.TemporaryDirectory(prefix="rushlight-triton-")
    os.environ |= {"TRITON_CACHE_DIR": cache.name, "TRITON_ALWAYS_COMPILE": "1"}

    def run():
        assert cache.name  # the folder lives as long as this function
        (made,) = load("backends.triton.compile_impl").compile_for([program], CHIP)
        return [float(len(made.binary))]

    return run
