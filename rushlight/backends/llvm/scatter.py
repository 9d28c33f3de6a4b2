"""Scatter grids: each instance owns a range of destination rows and applies all updates to it.

In: a `ScatterGrid`. Out: one kernel function and its launch.
Always true: an instance walks the updates in ascending order and skips the rows of others, so each
row sees its updates in order whatever the number of instances or threads, and no atomics exist.
The price is that every instance reads every row number, so there are few instances.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.context import Env, KernelContext, i64
from rushlight.backends.llvm.types import Launch
from rushlight.backends.llvm.values import emit_store, emit_value, memory_lanes
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program, ScatterGrid, Store
from rushlight.ir.scalar import E, add, load, maximum, minimum, mul
from rushlight.ir.symint import Var
from rushlight.ir.symint import minimum as min_expr

MOST_INSTANCES = 16
