"""DotGrid on matrix units: a subgroup multiplies 8x8 matrices that its threads hold together.

As in dot.py a group stages pieces of both operands in shared memory; each of its subgroups makes
MADE x MADE outputs, SIDES x SIDES matrices that stay in registers:

    for k0 in steps of BK:
        stage A[BM][BK], B[BK][BN], zeros outside;  barrier
        for k < BK in steps of 8: load SIDES + SIDES matrices; multiply all pairs
        barrier
    store the matrices

Operands of 16-bit floats with 11 bits wait as they are, so they take half the memory; all others as
float32, which the units keep. The sum over the 8 products of one step has no order that a language
fixes: results are right to the tolerance of an inexact backend. (The emulation adds them ascending,
so there the bits are those of the tile language.)
"""

from __future__ import annotations

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.context import Context, Index, Machine, bound
from rushlight.backends.cfamily.dot import Dot, Schedule, lower_dot
from rushlight.base.dtypes import DType, float16, float32
from rushlight.compiler.tile import ir
from rushlight.ir.symint import Var

SIDE = 8  # of a matrix
SUBGROUP = 32
SIDES = 4
MADE = SIDES * SIDE
BK = 16
PAD = 4  # elements between rows that are staged: neighbouring rows begin in different banks
FEWEST = 8  # rows below which most of the units' work would be thrown away


def lower_product(
    grid: ir.DotGrid, machine: Machine, name: str
) -> tuple[list[c.Kernel], list[c.Array]]:
    """By matrix units where there are any for it, else thread by thread."""
    if not fits(grid, machine):
        return lower_dot(grid, machine, name)
    schedule = choose_schedule(machine)
    context = Context(machine, name, SUBGROUP * schedule.rows * schedule.columns)
    kernel = _MatrixDot(grid, schedule, context).kernel()
    return [kernel], context.scratch


def fits(grid: ir.DotGrid, machine: Machine) -> bool:
    units = machine.matrices == SIDE and machine.subgroup == SUBGROUP
    if not units or machine.threads < SUBGROUP or grid.acc_dtype is not float32:
        return False
    bounds = (at_most(axis.extent) for axis in (grid.m, grid.n, grid.k))
    if any(isinstance(bound, int) and bound < FEWEST for bound in bounds):
        return False
    return _bytes(choose_schedule(machine)) <= machine.shared_bytes


def choose_schedule(machine: Machine) -> Schedule:
    """rows x columns subgroups, as many as a group has, at most 2 x 2."""
    subgroups = machine.threads // SUBGROUP
    return Schedule(2 if subgroups >= 2 else 1, 2 if subgroups >= 4 else 1, MADE, MADE, BK)


def _bytes(plan: Schedule) -> int:
    elements = plan.bm * (plan.bk + PAD) + plan.bk * (plan.bn + PAD) + plan.bm * plan.bn
    return elements * float32.itemsize


class _MatrixDot(Dot):
    zeroes = True

    @property
    def staged(self) -> tuple[DType, DType]:
        both_half = self.grid.a.dtype is self.grid.b.dtype is float16
        return (float16, float16) if both_half else (float32, float32)

    def _pitches(self) -> tuple[int, int]:
        return self.schedule.bk + PAD, self.schedule.bn + PAD

    def multiply(self) -> c.Block:
        plan, dtype = self.schedule, self.grid.acc_dtype
        subgroup = Var("subgroup_id", 0, plan.rows * plan.columns - 1, "axis")
        cells = {(r, n): f"acc_{r}_{n}" for r in range(SIDES) for n in range(SIDES)}
        array, base = self.out_tile
        stores = [
            c.Matrix("store", (name,), dtype, array, base + self._corner(r, n), plan.bn)
            for (r, n), name in cells.items()
        ]
        return (
            c.Bind(subgroup, c.THREAD // SUBGROUP),
            *bound((self.row, self.column), subgroup),
            *(c.Matrix("zero", (name,), dtype) for name in cells.values()),
            self._over_k((*self._stage(), c.Barrier(), self._steps(cells), c.Barrier())),
            *stores,
        )

    def _steps(self, cells: dict[tuple[int, int], str]) -> c.For:
        """The staged piece of k, eight at a time."""
        (a, a_base), (b, b_base) = self.a_tile, self.b_tile
        k = Var("k_i", 0, BK - SIDE, "axis")
        rows = self.row.var * MADE
        columns = self.column.var * MADE
        body: list[c.Code] = []
        for i in range(SIDES):
            at_a = a_base + (rows + i * SIDE) * self.a_pitch + k
            at_b = b_base + k * self.b_pitch + columns + i * SIDE
            body.append(c.Matrix("load", (f"a_{i}_",), a.dtype, a, at_a, self.a_pitch))
            body.append(c.Matrix("load", (f"b_{i}_",), b.dtype, b, at_b, self.b_pitch))
        body += [
            c.Matrix("multiply", (name, f"a_{r}_", f"b_{n}_"), self.grid.acc_dtype)
            for (r, n), name in cells.items()
        ]
        return c.For(k, 0, BK, SIDE, tuple(body), unroll=True)

    def _corner(self, r: int, n: int) -> Index:
        """Where a matrix of outputs lies in the tile."""
        row = self.row.var * MADE + r * SIDE
        return row * self.schedule.bn + self.column.var * MADE + n * SIDE
