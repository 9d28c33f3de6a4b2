"""Remove movement and casts that do nothing. Never touches arithmetic (NaN, inf and -0 stay).

before   %3 = reshape(reshape(%1, [6]), [2, 3])     after   %3 = reshape(%1, [2, 3])  (or %1)
"""

from __future__ import annotations

from rushlight.ir.node import Node, make_node, with_sources
from rushlight.ir.pattern import Any, Op, Rule
from rushlight.ir.rewrite import Rules, Told


def simplify(node: Node, told: Told | None = None) -> Node:
    """The node, or a simpler one with the same value. Sources are simplified already."""
    return RULES.apply(node, told)


def _has_shape_of_source(node: Node, x: Node) -> bool:
    return node.shape == x.shape


def _keeps_order(node: Node, x: Node) -> bool:
    return node.attrs[0] == tuple(range(node.ndim))


def _is_whole(node: Node, x: Node) -> bool:
    all_steps_are_one = all(step == 1 for step in node.attr("step"))
    return node.shape == x.shape and all_steps_are_one and not any(node.attr("start"))


def _is_same_region(node: Node, inner: Node, **_: Node) -> bool:
    return all(node.attr(name) == inner.attr(name) for name in ("start", "length", "step"))


def _joined_permute(node: Node, inner: Node, x: Node) -> Node:
    assert node.op is not None
    dims = tuple(inner.attrs[0][d] for d in node.attrs[0])
    return make_node(node.op, (x,), (dims, *node.attrs[1:]), node.shape, node.dtype)


x, base, old, update = Any("x"), Any("base"), Any("old"), Any("update")
_WRITE = Op("slice_scatter_", base, old, name="inner")

RULES = Rules(
    Rule("reshape_to_the_same_shape", Op("reshape", x, name="node"), lambda node, x: x,
         _has_shape_of_source),
    Rule("reshape_of_reshape", Op("reshape", Op("reshape", x), name="node"),
         lambda node, x: with_sources(node, (x,))),
    Rule("expand_to_the_same_shape", Op("expand", x, name="node"), lambda node, x: x,
         _has_shape_of_source),
    Rule("permute_that_keeps_the_order", Op("permute", x, name="node"), lambda node, x: x,
         _keeps_order),
    Rule("permute_of_permute", Op("permute", Op("permute", x, name="inner"), name="node"),
         _joined_permute),
    Rule("read_of_what_was_written", Op("slice_", _WRITE, name="node"),
         lambda node, inner, base, old: old, _is_same_region),
    Rule("slice_of_everything", Op("slice_", x, name="node"), lambda node, x: x, _is_whole),
    # `x[a:b] += y` writes the region, and then its value into itself once more.
    Rule("write_of_what_was_read",
         Op("slice_scatter_", base, Op("slice_", base, name="inner"), name="node"),
         lambda node, inner, base: base, _is_same_region),
    # What was written there before is not seen any more.
    Rule("write_over_a_write", Op("slice_scatter_", _WRITE, update, name="node"),
         lambda node, inner, base, old, update: with_sources(node, (base, update)),
         _is_same_region),
    Rule("cast_to_the_same_dtype", Op("cast", x, name="node"), lambda node, x: x,
         lambda node, x: node.dtype is x.dtype),
)  # fmt: skip
