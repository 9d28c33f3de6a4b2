"""Panels of an operand that stay after the run, for the next run that reads the same memory.

In: a contraction's side and how its panels lie. Out: a `Keep` for the runtime (None: it cannot
stay), and code that takes panels from there. The kernel gets an address: 0 (pack into scratch, as
always), panels (do not pack), or, with the lowest bit set, room for panels: the instances in the
first block of the other side pack to that place, the others into scratch. So no kernel of its own
packs, and an instance reads what it, or a run before, has packed by the same code: the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from rushlight.backends.llvm.context import I1, I64, PTR, Env, KernelContext, i64
from rushlight.backends.llvm.pack import Operand
from rushlight.compiler.tile.ir import Axis, Buffer, DotGrid, Program
from rushlight.compiler.tile.text import structural_key
from rushlight.ir.scalar import E, const, topological
from rushlight.ir.symint_math import ceildiv, product
from rushlight.ir.symint_walk import variables
from rushlight.runtime.packed import Keep

# Less is packed faster than it is looked up.
LEAST_BYTES = 64 << 10
# What is computed from few bytes (packed numbers of 4 bits) would take many as panels.
MOST_GROWTH = 2.5
_INDEXED = frozenset(("index", "load"))


@dataclass(frozen=True)
class PanelPlan:
    """batch: the axes that the operand depends on. step: elements from a panel to the next. kc: of
    a step of k. slack: elements behind the last panel."""

    operand: Operand
    batch: tuple[Axis, ...]
    step: int
    kc: int
    slack: int

    @property
    def panels(self) -> int:
        """In a step of k."""
        return ceildiv(self.operand.axis.extent, self.operand.width)  # type: ignore[return-value]

    @property
    def elements(self) -> int:
        steps = ceildiv(self.operand.k.extent, self.kc)
        copies = product([axis.extent for axis in self.batch])
        return copies * steps * self.panels * self.step + self.slack  # type: ignore[return-value]


def plan_panels(
    grid: DotGrid, operand: Operand, step: int, kc: int, slack: int
) -> PanelPlan | None:
    """None when the operand is not made of whole buffers alone, or is small, or grows too much."""
    names: set[str] = set()
    for node in topological([operand.value]):
        if node.op in ("param", "local", "acc"):
            return None
        names |= {v.name for at in _indices(node) for v in variables(at).values()
                  if v.kind != "value"}  # fmt: skip
    axes = [operand.axis, operand.k, *(a for a in grid.batch if a.name in names)]
    sizes = [axis.extent for axis in axes]
    if not names <= {axis.name for axis in axes} or not all(
        isinstance(n, int) and n > 0 for n in sizes
    ):
        return None
    found = PanelPlan(operand, tuple(axes[2:]), step, kc, slack)
    read = sum(b.dtype.itemsize * b.size for b in sources_of(operand.value) if _is_known(b))
    made = found.elements * operand.itemsize
    fits = all(map(_is_known, sources_of(operand.value))) and made <= MOST_GROWTH * read
    return found if fits and made >= LEAST_BYTES else None


def _is_known(buffer: Buffer) -> bool:
    return buffer.role == "in" and isinstance(buffer.size, int)


def _indices(node: E) -> Sequence[Any]:
    if node.op == "check_index":
        return node.meta
    return (node.meta if node.op == "index" else node.meta[1],) if node.op in _INDEXED else ()


def sources_of(value: E) -> list[Buffer]:
    """The buffers that an expression reads, in order."""
    loads = [node.meta[0] for node in topological([value]) if node.op == "load"]
    return list(dict.fromkeys(loads))


def keep_of(program: Program, plan: PanelPlan) -> Keep:
    """What the runtime is told. Its key says everything that the panels depend on."""
    o = plan.operand
    buffers = sources_of(o.value)
    axes = (Axis("m", 1), o.axis, o.k)
    alone = DotGrid(plan.batch, *axes, const(0, o.value.dtype), o.value, o.value.dtype, ())
    text = structural_key(Program("packed", tuple(buffers), (), (), (alone,)))
    how = (o.width, o.lanes, o.along_k, o.row_step, o.zero_tail, plan.step, plan.kc, plan.slack)
    places = {buffer: number for number, buffer in enumerate(program.buffers)}
    key = f"{text}|{how}"
    return Keep(key, tuple(places[b] for b in buffers), plan.elements * o.itemsize)


class KeptPanels:
    """Code for one operand of a kernel. `number`: of the pointer, among those of the launch."""

    def __init__(self, ctx: KernelContext, plan: PanelPlan, number: int) -> None:
        self.ctx, self.plan = ctx, plan
        entry = ctx.entry
        place = entry.ptrtoint(ctx.scratch_pointer(number), I64)
        self.fills = entry.trunc(place, I1)
        self.base = entry.inttoptr(entry.and_(place, i64(-2)), PTR)
        there = entry.icmp_signed("!=", place, i64(0))
        self.ready = entry.and_(there, entry.not_(self.fills))

    def is_used(self, builder: ir.IRBuilder, is_first: ir.Value) -> ir.Value:
        """Do the panels of this instance lie there? is_first: in the other side's first block."""
        return builder.or_(self.ready, builder.and_(self.fills, is_first))

    def panel(
        self, builder: ir.IRBuilder, env: Env, k0: ir.Value, lane: ir.Value, element: ir.Type
    ) -> ir.Value:
        """The panel that begins at (k0, lane)."""
        plan = self.plan
        at: ir.Value = i64(0)
        for axis in plan.batch:
            at = builder.add(builder.mul(at, i64(axis.extent)), env[axis.name])
        steps = ceildiv(plan.operand.k.extent, plan.kc)
        at = builder.add(builder.mul(at, i64(steps)), builder.udiv(k0, i64(plan.kc)))
        number = builder.udiv(lane, i64(plan.operand.width))
        at = builder.add(builder.mul(at, i64(plan.panels)), number)
        return builder.gep(self.base, [builder.mul(at, i64(plan.step))], source_etype=element)
