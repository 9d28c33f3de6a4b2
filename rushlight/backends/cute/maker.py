"""CuTe as a maker of kernels beside Triton (backends/products.py)."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from rushlight.backends.cute.claims import claim
from rushlight.backends.products import Maker
from rushlight.compiler.tile.ir import Program

FIX = "pip install 'rushlight[cute]'"


def is_installed() -> bool:
    return importlib.util.find_spec("cutlass") is not None


def refuse(program: Program, chip: str) -> list[str]:
    found = claim(program, chip)
    reasons = found if isinstance(found, list) else []
    return reasons or ([] if is_installed() else [f"nvidia-cutlass-dsl is missing ({FIX})"])


def build(program: Program, chip: str) -> Any:
    compiling: Any = importlib.import_module("rushlight.backends.cute.compile_impl")
    return compiling.compile_program(program, chip)


def text(program: Program, chip: str) -> str:
    """Its source is Python that CuTe traces; what is made of a program is PTX."""
    return f"// CuTe DSL, {chip}: rushlight/backends/cute\n{build(program, chip).ptx}"


MAKER = Maker("cute", refuse, build, text)
