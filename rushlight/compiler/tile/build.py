"""Group -> kernel: which builder makes which kind of group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import Points
from rushlight.compiler.sizes import Hints
from rushlight.compiler.tile.build_attention import build_attention
from rushlight.compiler.tile.build_map import build_map, build_pieces
from rushlight.compiler.tile.build_other import build_dot, build_scan, build_scatter, build_sort
from rushlight.compiler.tile.build_rows import build_rows
from rushlight.compiler.tile.build_split import build_split
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder
from rushlight.compiler.tile.reuse import Form, form_of
from rushlight.ir.node import Node, topological

_PLAIN: dict[str, Callable[[KernelBuilder], Kernel]] = {
    "map": build_map,
    "check": build_map,
    "rows": build_rows,
    "split": build_split,
    "dot": build_dot,
    "attention": build_attention,
    "scan": build_scan,
    "sort": build_sort,
}


@dataclass(frozen=True)
class BuildContext:
    """donatable(group): inputs whose memory this group may overwrite. built: kernels by form."""

    points: Points
    hints: Hints
    outputs: frozenset[Node]
    site_of: Callable[[Node], int]
    donatable: Callable[[Group], frozenset[Node]]
    built: dict[tuple, tuple[Kernel, Form]] = field(default_factory=dict)


def build_kernel(group: Group, context: BuildContext) -> Kernel:
    outputs = frozenset(m for m in group.members if m in context.outputs)
    builder = KernelBuilder(group, context.points, context.hints, outputs, context.site_of)
    if group.kind == "pieces":
        return build_pieces(builder, context.donatable(group))
    if group.kind == "scatter":
        return build_scatter(builder, _updatable(group, context))
    form = form_of(group, outputs, context.points.__contains__)
    if form is None:
        return _PLAIN[group.kind](builder)
    found = context.built.get(form.key)
    if found is not None:
        return form.kernel_like(*found, group)
    kernel = _PLAIN[group.kind](builder)
    context.built[form.key] = (kernel, form)
    return kernel


def _updatable(group: Group, context: BuildContext) -> frozenset[Node]:
    """Inputs that the kernel may update in place: the new values must not read them."""
    (node,) = group.members
    _, *values = node.src
    read = topological(values, stop=context.points.__contains__)
    return context.donatable(group).difference(read)
