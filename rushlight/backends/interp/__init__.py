"""The interpreter backend: tile programs run in numpy exactly as tile/ir defines them.

For tests and debugging. Gives the bits that every backend must give; float64 fma alone is exact
only where nothing over- or underflows on the way (see fma.py).
"""

from __future__ import annotations

from rushlight.backends.interp.plan import InterpExecutable, InterpPlan, build
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.compiler.target import Backend, Caps, Plan

_CAPS = Caps(
    "interp",
    vector_bytes=4,
    dtypes=frozenset(d.name for d in (*ALL_DTYPES, *BYTE_FLOATS)),
    one_pass_rows=1,
)


def find() -> Caps:
    return _CAPS


def load(plan: Plan, caps: Caps) -> InterpPlan:
    return InterpPlan(plan)


BACKEND = Backend("interp", find, build, load)

__all__ = ["BACKEND", "InterpExecutable", "InterpPlan", "build", "find", "load"]
