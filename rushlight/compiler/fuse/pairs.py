"""Which attentions share a kernel: those that go over the same pairs in the same way.

In: flash_attention, flash_lse, flash_top, pair_sum and pair_bins nodes (ops/pairs.py). Out: a
`PairSpace` of each, and the coordinates of its results. Nodes with equal spaces share the scores;
of sums also the products must overlap. The axes of such a group are those of the pairs, (..., l,
s), and one more, f, for each result with features or bins.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.ir.node import Node, topological
from rushlight.ir.symint import Expr, Var


@dataclass(frozen=True)
class Mask:
    """A pair_mask without what it masks. keep: None if all (causal) pairs are kept."""

    keep: Node | None = None
    tables: tuple[Node, ...] = ()
    is_causal: bool = False


@dataclass(frozen=True)
class PairSpace:
    """scores: what a softmax is taken of, None for plain sums. shape: (..., L, S)."""

    scores: Node | None
    mask: Mask
    shape: tuple[int | Expr, ...]


def space_of(node: Node) -> PairSpace:
    """The pairs over which an attention node goes."""
    value = node.src[0]
    if node.name not in ("pair_sum", "pair_bins"):
        lead = node.shape[:-2] if node.name == "flash_attention" else node.shape[:-1]
        mask = _mask_of(value) if _is_mask(value, "minus") else Mask()
        return PairSpace(value, mask, (*lead, *value.shape[-2:]))
    lead = node.shape[:-1] if _is_flat(node) else node.shape[:-2]
    return PairSpace(None, vanishing(value) or Mask(), (*lead, *value.shape[-2:]))


def result_coordinates(node: Node, axes: tuple[Var | int, ...], number: int) -> tuple:
    """Where an element of the node's result lies; `number` makes its f an axis of its own."""
    is_over_queries = node.name == "pair_sum" and node.attr("over") == "l"
    if node.name == "pair_bins":
        axes = axes[:-1]
    rows = (*axes[:-2], axes[-1]) if is_over_queries else axes[:-1]
    if len(node.shape) == len(rows):
        return rows
    width = node.shape[-1]
    return (*rows, 0 if width == 1 else Var(f"f{number}", 0, width - 1, "axis"))


def _is_flat(node: Node) -> bool:
    """Has a sum only one dim behind those of the batch?"""
    return node.name == "pair_bins" or len(node.src) == 1


def products_of(value: Node) -> list[Node]:
    """The pair_dots below a pair value."""
    order = topological([value], lambda node: not node.pairs or node.name == "pair_dot")
    return [node for node in order if node.name == "pair_dot"]


def shares_products(a: Node, b: Node) -> bool:
    """Is there a product that both attentions are made of?"""
    return not set(products_of(a.src[0])).isdisjoint(products_of(b.src[0]))


def vanishing(value: Node) -> Mask | None:
    """The mask outside of which a pair value is 0 for sure, if there is one."""
    return _outside(value, "zero", {})


def _is_mask(node: Node, fill: str) -> bool:
    return node.name == "pair_mask" and node.attr("fill") == fill


def _mask_of(node: Node) -> Mask:
    rest = node.src[1:]
    keep = rest[0] if node.attrs[-1] else None
    return Mask(keep, rest[keep is not None :], node.attr("is_causal"))


def _outside(node: Node, fill: str, known: dict[tuple[Node, str], Mask | None]) -> Mask | None:
    """The mask outside of which a value is `fill`: "zero", or "minus" for -inf."""
    key = (node, fill)
    if key not in known:
        known[key] = None
        known[key] = _outside_of_sources(node, fill, known)
    return known[key]


def _outside_of_sources(node: Node, fill: str, known: dict) -> Mask | None:
    if not node.pairs:
        return None
    if _is_mask(node, fill):
        return _mask_of(node)
    if node.name in _SAME_VALUE or (node.name == "neg" and fill == "zero"):
        return _outside(node.src[0], fill, known)
    if node.name == "exp" and fill == "zero":
        return _outside(node.src[0], "minus", known)
    sources = node.src[1:] if node.name == "where" else node.src
    found = [_outside(source, fill, known) for source in sources]
    if fill == "minus":
        # What is subtracted or added is finite, or the row sees no key at all.
        return found[0] if node.name in ("sub", "add") else None
    if node.name == "mul":
        return found[0] or found[1]
    if node.name == "div":
        return found[0]
    if node.name in ("add", "sub", "where"):
        masks = {m for source, m in zip(sources, found, strict=True) if not _is_zero(source)}
        return masks.pop() if len(masks) == 1 else None
    return None


_SAME_VALUE = frozenset(("cast", "reshape", "expand"))


def _is_zero(node: Node) -> bool:
    while node.name == "expand":
        node = node.src[0]
    return node.leaf == "const" and node.attrs[0] == 0
