"""Compiling products and attention for NVIDIA GPUs that need not be here: CuTe DSL, Triton.

The tile program is one and the same; what is timed goes from it to the cubin. The first repetition
imports the code generator and is told apart; nothing is taken from a cache. PyTorch is no part.
"""

import importlib
import importlib.util
import os
import tempfile
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from workloads import Case

TITLE = (
    "tile program to cubin, no GPU needed: a product of 4096 x 4096 x 4096; causal attention of "
    "8 heads x 1024 x 64 with a bent score, its gradients"
)
SIZE = 4096
HEADS, LENGTH, WIDTH = 8, 1024, 64


def cases():
    found = {
        f"gemm {dtype} {chip} {maker}": {"maker": maker, "what": dtype, "chip": chip}
        for dtype in ("float16", "bfloat16")
        for chip in ("sm_90", "sm_100")
        for maker in ("cute", "triton")
    }
    return found | {
        f"attention {what} {chip} {maker}": {"maker": maker, "what": what, "chip": chip}
        for what in ("forward", "backward")
        for chip in ("sm_90", "sm_100")
        for maker in ("cute", "triton")
    }


def build(torch, maker, what, chip):
    if torch.__name__ != "rushlight":
        raise NotImplementedError("compiles Rushlight's tile programs")
    needs = {"cute": "cutlass", "triton": "triton"}[maker]
    if importlib.util.find_spec(needs) is None:
        raise NotImplementedError(f"{needs} is not installed here")
    if what in ("forward", "backward"):
        program = attention_program(torch, what)
    else:
        program = gemm_program(what)
    return Case({"cute": cute, "triton": triton}[maker](program, chip))


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


def attention_program(torch: Any, what: str) -> Any:
    """What the compiler makes of flex_attention, or of its gradients."""
    flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
    q, k, v, to = (torch.zeros(1, HEADS, LENGTH, WIDTH, dtype=torch.bfloat16) for _ in range(4))
    load("engine.realize").flush()  # operands are memory
    for x in (q, k, v):
        x.requires_grad_()
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, LENGTH, LENGTH)
    out = flex.flex_attention(q, k, v, lambda s, b, h, i, j: torch.tanh(s / 20) * 20, mask)
    gradients = torch.autograd.grad(out, (q, k, v), to)
    roots = [x._value() for x in ((out,) if what == "forward" else gradients)]
    name = {"forward": "flash", "backward": "pair_sum"}[what]
    return next(p for p in programs_of(roots) if name in p.name)


def programs_of(roots: list[Any]) -> list[Any]:
    """The tile programs of a graph; nothing is run."""
    found: list[Any] = []
    null = load("backends").find_backend("null")

    def keep(programs, caps):
        found.extend(programs)
        return null.build(programs, caps)

    recording = load("engine.signature").record(roots)
    ints = np.array([recording.ints], np.int64)
    positions = load("engine.signature").offset_positions(recording)
    template = load("engine.template").make_template(ints, positions)
    load("engine.programs").compile_recording(
        recording, template, frozenset(), replace(null, build=keep), null.require(), lambda _: ""
    )
    return found


def load(name: str) -> ModuleType:
    return importlib.import_module(f"rushlight.{name}")


def cute(program: Any, chip: str):
    def run():
        return [float(len(load("backends.cute.maker").build(program, chip).cubin))]

    return run


def triton(program: Any, chip: str):
    cache = tempfile.TemporaryDirectory(prefix="rushlight-triton-")
    os.environ |= {"TRITON_CACHE_DIR": cache.name, "TRITON_ALWAYS_COMPILE": "1"}

    def run():
        assert cache.name  # the folder lives as long as this function
        made = load("backends.triton.compile_impl").compile_for([program], chip)
        return [float(len(one.binary)) for one in made]

    return run
