"""Remove movement and casts that do nothing. Never touches arithmetic (NaN, inf and -0 stay).

before   %3 = reshape(reshape(%1, [6]), [2, 3])     after   %3 = reshape(%1, [2, 3])  (or %1)
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.ir.node import Node, make_node


def simplify(node: Node) -> Node:
    """The node, or a simpler one with the same value. Sources are simplified already."""
    rule = rule_of(node)
    return node if rule is None else rule(node)


def rule_of(node: Node) -> Callable[[Node], Node] | None:
    """The rule for this kind of node."""
    return RULES.get(node.name)


def _reshape(node: Node) -> Node:
    source = node.src[0]
    while source.name == "reshape":
        source = source.src[0]
    if source.shape == node.shape:
        return source
    return node if source is node.src[0] else _with_source(node, source)


def _expand(node: Node) -> Node:
    source = node.src[0]
    return source if source.shape == node.shape else node


def _permute(node: Node) -> Node:
    dims = node.attrs[0]
    source = node.src[0]
    if source.name == "permute":
        inner = source.attrs[0]
        dims = tuple(inner[d] for d in dims)
        source = source.src[0]
    if dims == tuple(range(len(dims))):
        return source
    if source is node.src[0]:
        return node
    return _with_source(node, source, (dims, *node.attrs[1:]))


def _slice(node: Node) -> Node:
    source = node.src[0]
    if source.name == "slice_scatter_" and _same_region(node, source):
        return source.src[1]
    whole = source.shape == node.shape and all(step == 1 for step in node.attr("step"))
    return source if whole and all(s == 0 for s in node.attr("start")) else node


def _slice_scatter(node: Node) -> Node:
    """`x[a:b] += y` writes the region, and then its value into itself once more."""
    base, update = node.src
    if update.name == "slice_" and update.src[0] is base and _same_region(node, update):
        return base
    if base.name != "slice_scatter_" or not _same_region(node, base):
        return node
    # What the base wrote there is not seen any more.
    assert node.op is not None
    sources = (base.src[0], update)
    return make_node(node.op, sources, node.attrs, node.shape, node.dtype)


def _same_region(a: Node, b: Node) -> bool:
    return all(a.attr(name) == b.attr(name) for name in ("start", "length", "step"))


def _cast(node: Node) -> Node:
    return node.src[0] if node.src[0].dtype is node.dtype else node


def _with_source(node: Node, source: Node, attrs: tuple | None = None) -> Node:
    assert node.op is not None  # leaves have no rule
    return make_node(
        node.op, (source,), node.attrs if attrs is None else attrs, node.shape, node.dtype
    )


RULES: dict[str, Callable[[Node], Node]] = {
    "reshape": _reshape,
    "expand": _expand,
    "permute": _permute,
    "slice_": _slice,
    "slice_scatter_": _slice_scatter,
    "cast": _cast,
}
