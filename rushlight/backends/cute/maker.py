"""CuTe as a maker of kernels beside Triton (backends/products.py)."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from rushlight.backends.cute.claims import Product, claim
from rushlight.backends.cute.flash_claims import Attention, claim_attention
from rushlight.backends.products import Maker
from rushlight.base.errors import BackendError
from rushlight.compiler.tile.ir import AttentionGrid, Program

FIX = "pip install 'rushlight[cute]'"


def is_installed() -> bool:
    """Is the extra here? Nothing of it is imported to know."""
    return importlib.util.find_spec("cutlass") is not None


def claimed(program: Program, chip: str) -> Product | Attention | list[str]:
    """What a program is to CuTe, or why it has no kernel for it."""
    if any(isinstance(grid, AttentionGrid) for grid in program.grids):
        return claim_attention(program, chip)
    return claim(program, chip)


def require(program: Program, chip: str) -> Product | Attention:
    """As `claimed`; a BackendError with the reasons where there is no kernel."""
    found = claimed(program, chip)
    if isinstance(found, list):
        raise BackendError(f"cute: {program.name} for {chip}: {'; '.join(found)}")
    return found


def refuse(program: Program, chip: str) -> list[str]:
    """Why there is no kernel for a program; nothing: there is one."""
    found = claimed(program, chip)
    reasons = found if isinstance(found, list) else []
    return reasons or ([] if is_installed() else [f"nvidia-cutlass-dsl is missing ({FIX})"])


def build(program: Program, chip: str) -> Any:
    """`Compiled` (compile_impl.py): PTX, cubin and what launches it. A BackendError where CuTe has
    no kernel, ModuleNotFoundError without the extra."""
    compiling: Any = importlib.import_module("rushlight.backends.cute.compile_impl")
    return compiling.compile_claimed(require(program, chip), chip)


def text(program: Program, chip: str) -> str:
    """Its source is Python that CuTe traces; what is made of a program is PTX."""
    return f"// CuTe DSL, {chip}: rushlight/backends/cute\n{build(program, chip).ptx}"


MAKER = Maker("cute", refuse, build, text)
