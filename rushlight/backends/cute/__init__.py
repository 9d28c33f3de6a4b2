"""Products of matrices in NVIDIA's CuTe DSL (extra: `cute`), beside Triton on NVIDIA GPUs.

import rushlight as torch
torch._inductor.config.max_autotune_gemm_backends = "CUTLASS,TRITON"    # the first that can
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from rushlight.base.errors import BackendError
from rushlight.compiler.target import Backend, Caps, Executable, LoadedPlan, Missing, Plan
from rushlight.compiler.tile.ir import Program

FIX = "pip install 'rushlight[cute]'"
WHY = "it makes products beside Triton (max_autotune_gemm_backends names CUTLASS), no whole plan"


def find() -> Caps | Missing:
    if importlib.util.find_spec("cutlass") is None:
        return Missing("nvidia-cutlass-dsl is not installed", FIX)
    return Missing(WHY, "RUSHLIGHT_BACKEND=triton is for NVIDIA GPUs")


def build(programs: Sequence[Program], caps: Caps) -> list[Executable]:
    raise BackendError(f"backend cute: {WHY}")


def load(plan: Plan, caps: Caps) -> LoadedPlan:
    raise BackendError(f"backend cute: {WHY}")


BACKEND = Backend("cute", find, build, load)

__all__ = ["BACKEND"]
