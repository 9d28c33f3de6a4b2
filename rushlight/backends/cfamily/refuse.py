"""Reasons why a tile program cannot be built for a machine, found before anything is compiled.

In: a program and the target's caps. Out: reasons, each one line; none: it can be built.
"""

from __future__ import annotations

from collections.abc import Iterator

from rushlight.backends.cfamily.context import Machine, Refused
from rushlight.backends.cfamily.lower import lower_program
from rushlight.base.dtypes import DType, bool_
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.transform import grid_roots
from rushlight.ir.scalar import topological


def refuse(program: Program, caps: Caps) -> list[str]:
    missing = sorted({d.name for d in dtypes_of(program)} - caps.dtypes)
    if missing:
        # Every language has truth values; here it is memory that cannot hold them.
        where = {"bool": " in memory"}
        return [f"no {name}{where.get(name, '')} on {caps.name}" for name in missing]
    try:
        lowered = lower_program(program, Machine.of(caps))
    except Refused as error:
        return [str(error)]
    own = {
        a.dtype.name for a in (*lowered.scratch, *(a for k in lowered.kernels for a in k.arrays))
    }
    if own - caps.dtypes - {"bool"}:
        return [f"no {name} on {caps.name}" for name in sorted(own - caps.dtypes - {"bool"})]
    buffers = len(program.buffers) + len(lowered.scratch)
    if caps.max_buffers and buffers > caps.max_buffers:
        return [f"{buffers} buffers in a kernel, {caps.max_buffers} at most"]
    return []


def dtypes_of(program: Program) -> Iterator[DType]:
    """Of memory, parameters and every step of arithmetic. An index is not counted as an int64, and
    every language has truth values."""
    yield from (buffer.dtype for buffer in program.buffers)
    yield from (param.dtype for param in program.params if param.dtype is not bool_)
    for grid in program.grids:
        for node in topological(tuple(grid_roots(grid))):
            if node.op != "index" and node.dtype is not bool_:
                yield node.dtype
