"""Pair values (ops/pairs.py): what stays inside an attention, and what becomes ordinary.

before   %3 = pair_dot(%1, %2)             read by flash_lse and by a root
after    flash_lse(%3)                     stays a pair value
         root = dot(%1, permute(%2))       an ordinary value for everybody else

A sum over queries or keys is a `pair_sum` (a sum over the other dims follows). A scatter whose
places do not depend on the key (or the query) is done after a sum over it; with places that depend
on both it becomes `pair_bins`. So the gradients of what a score_mod captured need no scores in
memory.
"""

from __future__ import annotations

from rushlight.compiler.tile.access import Access
from rushlight.compiler.tile.coords import axes_of, broadcast_coords
from rushlight.ir import scalar as s
from rushlight.ir.node import Node, const_node, topological, with_sources
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import product
from rushlight.ir.symint_walk import variables
from rushlight.ops import (
    add,
    cast,
    le,
    logical_and,
    mul,
    pair_bins,
    pair_sum,
    reduce_sum,
    reshape,
    scatter_nd,
    where,
)
from rushlight.ops.build import expand_to, iota_along, slice_dim, swap_last
from rushlight.ops.pairs import FILLS
from rushlight.ops.products import batched_dot

OF_BOTH = frozenset("ls")


def stays_inside(value: Node) -> bool:
    """Is every product of a pair value read at the pair's own query and key?"""
    axes = axes_of(value.shape)
    inside = True
    own = {var.name for var in axes[-2:] if not isinstance(var, int)}

    def leaf(node: Node, at: tuple, mask: s.E | None) -> s.E | None:
        nonlocal inside
        if node.name == "pair_dot":
            here = broadcast_coords(node.shape[-2:], axes[-2:])
            lead = {name for index in at[:-2] for name in variables(index)}
            inside = inside and at[-2:] == here and lead.isdisjoint(own)
        elif node.pairs:
            return None
        return s.param("value", node.dtype)

    Access(leaf, lambda node: s.param("number", node.dtype), lambda node: 0).value(value, axes)
    return inside


def _is_of_products(value: Node) -> bool:
    """Is there a product in it, with which the sums are better made? Masks alone have none."""
    order = topological([value], lambda node: not node.pairs)
    has_product = any(node.name == "pair_dot" for node in order)
    return has_product and value.dtype.is_floating_point and stays_inside(value)


def ordinary(value: Node, done: dict[Node, Node]) -> Node:
    """The same value for readers that are no attention, as other ops."""
    for node in topological([value], lambda n: not n.pairs or n in done):
        if node in done:
            continue
        if not node.pairs:
            done[node] = node
            continue
        src = tuple(done[source] for source in node.src)
        build = _ORDINARY.get(node.name)
        done[node] = build(node, src) if build is not None else with_sources(node, src)
    return done[value]


def _product(node: Node, src: tuple[Node, ...]) -> Node:
    a, b = (x if x.dtype is node.dtype else cast(x, node.dtype) for x in src)
    return batched_dot(a, swap_last(b, b.ndim))


def _index(node: Node, src: tuple[Node, ...]) -> Node:
    dim, sizes = node.attr("dim"), node.attr("sizes")
    return expand_to(along := iota_along(len(sizes), dim, sizes[dim]), along.shape, sizes)


def _mask(node: Node, src: tuple[Node, ...]) -> Node:
    keep = src[1] if node.attrs[-1] else None
    if node.attr("is_causal"):
        rows, columns = node.shape[-2:]
        causal = le(iota_along(2, 1, columns), iota_along(2, 0, rows))
        keep = causal if keep is None else logical_and(keep, causal)
    if keep is None:
        return src[0]
    return where(keep, src[0], const_node(FILLS[node.attr("fill")], node.dtype))


_ORDINARY = {"pair_dot": _product, "pair_index": _index, "pair_mask": _mask}


def sum_of_pairs(node: Node) -> Node | None:
    """A reduce_sum over keys or queries (and other dims) of a pair value, or None."""
    (value,), dims = node.src, node.attrs[0]
    last = value.ndim - 1
    if not _is_of_products(value) or not {last, last - 1} & set(dims):
        return None
    over, gone = ("s", last) if last in dims else ("l", last - 1)
    first = pair_sum(value, None, over=over)
    # Dims behind a dim that is gone move up by one.
    rest = tuple(d - (d > gone) for d in dims if d != gone)
    return reduce_sum(first, rest) if rest else first


def scatter_of_pairs(node: Node) -> Node | None:
    """A scatter of sums, with places that do not depend on the key, or the query; or None."""
    target, value, *places = node.src
    same = all(place.shape == value.shape for place in places)
    if node.attr("kind") != "sum" or target.pairs or not same or not _is_of_products(value):
        return None
    if 0 in value.shape:
        return target
    used = frozenset[str]().union(*(depends_on(place) for place in places))
    if used == OF_BOTH:
        return _binned(target, value, places)
    shape, last = value.shape, value.ndim - 1
    if "s" not in used:
        value = pair_sum(value, None, over="s")
        if not used:
            value = reduce_sum(value, (last - 1,))
    else:
        value = pair_sum(value, None, over="l")
    for dim, name in ((last, "s"), (last - 1, "l")):
        if name not in used:
            places = [_without(place, dim) for place in places]
    assert value.shape == places[0].shape, (value.shape, shape)
    return scatter_nd(target, value, places, kind="sum")


def _binned(target: Node, value: Node, places: list[Node]) -> Node | None:
    """Places that depend on both: one sum per place and batch element, added to the target. None
    if that is no less than the scores themselves."""
    shape, lead = value.shape, value.shape[:-2]
    inner = [d for d, place in enumerate(places) if depends_on(place)]
    sizes = tuple(target.shape[d] for d in inner)
    count, pairs = product(sizes), product(shape[-2:])
    if count == pairs or not all(isinstance(n, int) for n in sizes[1:]):
        return None
    if isinstance(count, int) and isinstance(pairs, int) and 4 * count > pairs:
        return None
    place = places[inner[0]]
    for d, size in zip(inner[1:], sizes[1:], strict=True):
        place = add(mul(place, size), places[d])
    found = reshape(pair_bins(value, place, bins=(count,)), (*lead, *sizes))
    if len(inner) == len(places):
        return add(target, reduce_sum(found, tuple(range(len(lead)))) if lead else found)
    where_to = []
    for d, (x, size) in enumerate(zip(places, target.shape, strict=True)):
        if d in inner:
            x = iota_along(found.ndim, len(lead) + inner.index(d), size)
        else:
            x = _without(_without(x, len(lead)), len(lead))
            x = reshape(x, (*lead, *(1 for _ in sizes)))
        where_to.append(expand_to(x, x.shape, found.shape))
    return scatter_nd(target, found, where_to, kind="sum")


def _without(x: Node, dim: int) -> Node:
    """Any element along a dim on which x does not depend."""
    one = slice_dim(x, x.shape, dim, 0, 1)
    return reshape(one, (*x.shape[:dim], *x.shape[dim + 1 :]))


def depends_on(value: Node) -> frozenset[str]:
    """Which of "l" (the query) and "s" (the key) an element of (..., L, S) depends on, at most."""
    found: dict[Node, frozenset[str]] = {}
    for node in topological([value], lambda n: not n.pairs):
        if not node.pairs:
            found[node] = _varies(node.shape)
        elif node.name == "pair_index":
            at = node.attr("dim") - node.ndim
            found[node] = frozenset({-2: "l", -1: "s"}.get(at, ""))
        elif node.name == "gather_nd" and node.ndim == node.src[1].ndim:
            found[node] = frozenset[str]().union(*(found[source] for source in node.src[1:]))
        elif node.name in _KEEP_PLACE or (node.op is not None and node.op.kind == "elementwise"):
            found[node] = frozenset[str]().union(*(found[source] for source in node.src))
        else:
            found[node] = OF_BOTH
    return found[value]


_KEEP_PLACE = frozenset(("expand", "pair_mask"))


def _varies(shape: tuple[int | Expr, ...]) -> frozenset[str]:
    named = zip("sl", reversed(shape), strict=False)
    return frozenset(name for name, size in named if size != 1)
