"""Tile programs to thread programs: THE TABLE OF CONTENTS of the lowering.

In: a tile program of basic ops and a `Machine`. Out: a `ThreadProgram`, or `Refused` with the
reason. Always true: the numbers are those that tile/ir fixes, except that a long scan of floats is
cut into blocks (see scan.py) on machines with groups of threads.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.attention import lower_attention
from rushlight.backends.cfamily.blocks import lend_axes, threads_for
from rushlight.backends.cfamily.context import Context, Machine, Refused, bound
from rushlight.backends.cfamily.dot_matrix import lower_product
from rushlight.backends.cfamily.maps import lower_map
from rushlight.backends.cfamily.reduce import lower_reduce
from rushlight.backends.cfamily.scan import lower_scan
from rushlight.backends.cfamily.scan_long import has_long_rows, lower_long_scan
from rushlight.backends.cfamily.scatter import lower_scatter
from rushlight.backends.cfamily.sort import lower_sort
from rushlight.compiler.tile import ir
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import product
from rushlight.ir.symint_walk import variables

# Words of the languages that are letters and digits alone.
RESERVED = frozenset(
    "if else for while do break continue return const int long short char float double bool void "
    "half signed unsigned static inline struct union enum switch case default goto sizeof typedef "
    "kernel device constant thread threadgroup global local private new delete this true false "
    "var let fn loop array ptr status numbers buffers".split()
)
Lowered = tuple[Sequence[c.Kernel], Sequence[c.Array]]

Lowerings = Mapping[type, Callable[..., Lowered]]
_NONE: Lowerings = {}

# Grids with an algorithm of their own.
_GRIDS: dict[type, Callable[..., Lowered]] = {
    ir.DotGrid: lower_product, ir.AttentionGrid: lower_attention, ir.ScatterGrid: lower_scatter,
}  # fmt: skip


def lower_programs(
    programs: Sequence[ir.Program], machine: Machine, own: Lowerings = _NONE
) -> list[c.ThreadProgram]:
    return [lower_program(program, machine, n, own) for n, program in enumerate(programs)]


def lower_program(
    program: ir.Program, machine: Machine, number: int = 0, own: Lowerings = _NONE
) -> c.ThreadProgram:
    """`number` makes the names of kernels unique among programs of one source text; `own`: the
    backend's own lowerings of kinds of grids."""
    _check_names(program)
    if not program.grids:  # without any kernel nothing would be computed
        raise ValueError(f"program {program.name} has no grids to lower")
    stem = re.sub(r"\W", "_", program.name)
    kernels: list[c.Kernel] = []
    scratch: list[c.Array] = []
    for position, grid in enumerate(program.grids):
        name = f"{stem}_{number}_g{position}"
        lower = own.get(type(grid)) or _GRIDS.get(type(grid), lower_grid)
        more, arrays = lower(grid, machine, name)
        kernels += more
        scratch += arrays
    return c.ThreadProgram(program, tuple(kernels), tuple(scratch))


def _check_names(program: ir.Program) -> None:
    """Names of the lowering have an underscore, those of programs do not."""
    named = (*program.buffers, *program.params, *program.sizes, *_axes_in(program.grids))
    for name in {one.name for one in named}:
        if not name.isalnum() or name in RESERVED:
            raise Refused(f"the name {name!r}: it is not made of letters and digits, or reserved")


def _axes_in(part: Any) -> Iterator[ir.Axis]:
    """Every axis of a part of a program."""
    if isinstance(part, ir.Axis):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _axes_in(item)
    elif dataclasses.is_dataclass(part) and not isinstance(part, ir.Buffer | ir.Local | ir.Param):
        for field in dataclasses.fields(part):
            yield from _axes_in(getattr(part, field.name))


def lower_grid(grid: ir.Grid, machine: Machine, name: str) -> Lowered:
    """Statements in order; what one writes, the next may read."""
    if any(isinstance(statement, ir.Sort) for statement in grid.body):
        return lower_sort(grid, machine, name)
    if has_long_rows(grid, machine):
        is_known = isinstance(grid.body[0].over.extent, int)  # type: ignore[union-attr]
        short: Lowered = ([], []) if is_known else _lower_statements(grid, machine, name)
        return lower_long_scan(grid, machine, name, short)
    return _lower_statements(grid, machine, name)


def _lower_statements(grid: ir.Grid, machine: Machine, name: str) -> Lowered:
    grid = lend_axes(grid, machine)
    context = Context(machine, name, threads_for(grid.body, machine))
    for axis in grid.axes:
        if any(v.kind == "axis" for v in variables(axis.extent).values()):
            raise Refused(f"grid axis {axis.name} has an extent that depends on another axis")
    body = lower_body(context, grid.body)
    instance = Var("instance_id", 0, None, "axis")
    binds = bound(grid.axes, instance)
    instances = product(axis.extent for axis in grid.axes)
    kernel = context.kernel((*binds, *body), instances, instance)
    return [kernel], context.scratch


def lower_body(context: Context, body: Sequence[ir.Statement]) -> c.Block:
    block: c.Block = ()
    for position, statement in enumerate(body):
        if position:
            block += context.barrier()
        block += _STATEMENTS[type(statement)](context, statement)
    return block


def _lower_loop(context: Context, loop: ir.Loop) -> c.Block:
    body = (*lower_body(context, loop.body), *context.barrier())
    return (c.For(loop.axis.var, 0, loop.axis.extent, 1, body),)


_STATEMENTS: dict[type, Callable[..., c.Block]] = {
    ir.Map: lower_map, ir.Reduce: lower_reduce, ir.Scan: lower_scan, ir.Loop: _lower_loop,
}  # fmt: skip
