"""The default CPU backend: tile programs to native code through LLVM IR (llvmlite)."""

from __future__ import annotations

from rushlight.backends.llvm.build import build, lower_text
from rushlight.backends.llvm.caps import find_caps
from rushlight.compiler.target import Backend, Caps, LoadedPlan, Plan

try:
    from rushlight.backends.llvm.plan import load
except ImportError:

    def load(plan: Plan, caps: Caps) -> LoadedPlan:
        raise RuntimeError("this installation of the llvm backend has no native runtime")


BACKEND = Backend("llvm", find_caps, build, load, lower_text)

__all__ = ["BACKEND", "build", "find_caps", "load", "lower_text"]
