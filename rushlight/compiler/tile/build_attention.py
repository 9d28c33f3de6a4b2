"""Attention nodes over the same pairs -> AttentionGrid.

In: a group of kind "attention": its heads (flash_attention, flash_lse, flash_top; or pair_sums) and
members that work on elements of one head. Out: a kernel. Pair values become scalar expressions of
the products (acc 0, acc 1, ...), of the indices and of loads; the mask of the group becomes the
grid's, wherever it stands in them.
"""

from __future__ import annotations

from rushlight.base.dtypes import DType, int64
from rushlight.compiler.fuse.pairs import Mask, PairSpace, products_of, space_of
from rushlight.compiler.tile.coords import broadcast_coords
from rushlight.compiler.tile.ir import (
    AttentionGrid,
    Axis,
    PairBins,
    PairSum,
    Product,
    Runs,
    Softmax,
    Store,
)
from rushlight.compiler.tile.kernel import Kernel, KernelBuilder
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.scalar import E
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv
from rushlight.ops.pairs import PAIR_GROUP, PAIR_PART, PAIR_ROWS, PAIR_TILE


def build_attention(builder: KernelBuilder) -> Kernel:
    return builder.finish([_Building(builder).grid()])


def _widest(heads: list[Node]) -> DType:
    """What everything is added up in: a narrow weight may be made of wide products."""
    values = [head.src[0] for head in heads]
    made_of = [product for value in values for product in products_of(value)]
    return max((x.dtype.compute for x in (*values, *made_of)), key=lambda dtype: dtype.itemsize)


class _Building:
    """State of one AttentionGrid under construction."""

    def __init__(self, builder: KernelBuilder) -> None:
        group = builder.group
        self.builder, self.group = builder, group
        self.heads = [m for m in group.members if group.head[m] is m]
        self.space: PairSpace = space_of(self.heads[0])
        *lead, length, keys = (Axis(f"d{i}", n) for i, n in enumerate(group.shape))
        self.batch, self.l, self.s = tuple(lead), length, keys
        self.at = tuple(
            0 if n == 1 else axis.var
            for n, axis in zip(group.shape, (*lead, length, keys), strict=True)
        )
        self.dtype = _widest(self.heads)
        # A product, and for which batch element it is read -> its number.
        self.products: dict[tuple[Node, tuple], int] = {}
        self.keep: E | None = None
        self.mask_at: tuple | None = None
        self.operands = builder.access()
        self.pairs = builder.access(self._pair_leaf)

    def grid(self) -> AttentionGrid:
        softmax, weights = None, [s.acc(self.dtype)] * len(self.heads)
        if self.space.scores is not None:
            softmax = self._softmax(self._of_pairs(self.space.scores))
        else:
            weights = [self._of_pairs(head.src[0]) for head in self.heads]
        sums = tuple(
            self._sum(head, weight)
            for head, weight in zip(self.heads, weights, strict=True)
            if head.name in ("flash_attention", "pair_sum")
        )
        bins = tuple(
            PairBins(weight, self._bin(head.src[1]), self._last_axis(head), self._stores(head))
            for head, weight in zip(self.heads, weights, strict=True)
            if head.name == "pair_bins"
        )
        mask = self.space.mask
        return AttentionGrid(
            self.batch, self.l, self.s, tuple(map(self._product, self.products)), self.keep,
            mask.is_causal, self._runs(mask, 0), self._runs(mask, 1), softmax, sums, self.dtype,
            bins,
        )  # fmt: skip

    def _of_pairs(self, value: Node) -> E:
        return s.cast(self.pairs.value(value, self.at[len(self.at) - value.ndim :]), self.dtype)

    def _pair_leaf(self, node: Node, at: tuple, mask: E | None) -> E | None:
        if node.name == "pair_dot":
            assert at[-2:] == broadcast_coords(node.shape[-2:], self.at[-2:]), at
            number = self.products.setdefault((node, at[:-2]), len(self.products))
            return s.acc(node.dtype, number)
        if node.name == "pair_mask" and self._is_mask_of_grid(node):
            self._note_mask(node, at)
            return self.pairs.value(node.src[0], at, mask)
        return self.builder.read(node, at, mask)

    def _is_mask_of_grid(self, node: Node) -> bool:
        mask = self.space.mask
        others = (*(() if mask.keep is None else (mask.keep,)), *mask.tables)
        same = node.src[1:] == others and node.attr("is_causal") == mask.is_causal
        return same and bool(node.attrs[-1]) == (mask.keep is not None)

    def _note_mask(self, node: Node, at: tuple) -> None:
        self.mask_at = at
        if self.space.mask.keep is not None:
            keep = node.src[1]
            self.keep = self.pairs.value(keep, broadcast_coords(keep.shape, at))
        if node.attr("is_causal"):
            assert at[-2:] == self.at[-2:], at

    def _product(self, key: tuple[Node, tuple]) -> Product:
        (node, lead), number = key, self.products[key]
        a, b = node.src
        k = Axis(f"k{number}", a.shape[-1])
        found = []
        for operand, axis in ((a, self.l), (b, self.s)):
            at = (*lead, axis.var, k.var)[-operand.ndim :]
            found.append(self.operands.value(operand, broadcast_coords(operand.shape, at)))
        return Product(k, *found)

    def _operand(self, node: Node, *last: Axis) -> E:
        at = broadcast_coords(
            node.shape, (*self.at[:-2], *(axis.var for axis in last))[-node.ndim :]
        )
        return self.operands.value(node, at)

    # ---- results -------------------------------------------------------------------------

    def _softmax(self, score: E) -> Softmax:
        acc = s.acc(self.dtype)
        stores: dict[str, tuple[Store, ...]] = {"flash_lse": (), "flash_top": ()}
        for head in self.heads:
            if head.name in stores:
                stores[head.name] = self._stores(head)
        return Softmax(score, s.exp(acc), s.log(acc), stores["flash_lse"], stores["flash_top"])

    def _sum(self, head: Node, weight: E) -> PairSum:
        over = "s" if head.name == "flash_attention" else head.attr("over")
        if head.name == "pair_sum" and len(head.src) == 1:
            return PairSum(over, weight, None, None, self._stores(head))
        other, n = head.src[1], self._last_axis(head)
        operand = self._operand(other, self.s if over == "s" else self.l, n)
        return PairSum(over, weight, n, operand, self._stores(head))

    def _last_axis(self, head: Node) -> Axis:
        place = self.group.at[head][-1]
        return Axis(place.name if isinstance(place, Var) else "f", head.shape[-1])

    def _bin(self, place: Node) -> E:
        return self.pairs.value(place, self.at[len(self.at) - place.ndim :])

    def _stores(self, head: Node) -> tuple[Store, ...]:
        """Of a result and of what is made of its elements."""
        group, builder = self.group, self.builder
        result = s.cast(s.acc(self.dtype), head.dtype)

        def leaf(here: Node, at: tuple, mask: E | None) -> E | None:
            return result if here is head else builder.read(here, at, mask)

        epilogue = builder.access(leaf)
        stores = []
        for member in group.members:
            if group.head[member] is head and member in builder.outputs:
                stores += builder.stores(epilogue, member, group.at[member])
        return tuple(stores)

    # ---- the mask ------------------------------------------------------------------------

    def _runs(self, mask: Mask, side: int) -> Runs | None:
        """side 0: of blocks of queries, 1: of blocks of keys."""
        if (
            len(mask.tables) <= 2 * side
            or self.mask_at is None
            or self.mask_at[-2:] != self.at[-2:]
        ):
            return None
        starts, spans = mask.tables[2 * side : 2 * side + 2]
        row = Axis(f"row{side}", ceildiv((self.l, self.s)[side].extent, PAIR_ROWS))
        run = Axis(f"run{side}", spans.shape[0])
        lead = broadcast_coords(starts.shape[:-1], self.mask_at[:-2])
        begin, end = (self._whole(starts, (*lead, row.var + i)) for i in (0, 1))
        parts = (self._whole(spans, (run.var, i)) for i in range(3))
        return Runs(PAIR_ROWS, PAIR_TILE, PAIR_GROUP, PAIR_PART, row, run, begin, end, *parts)

    def _whole(self, node: Node, at: tuple) -> E:
        return s.cast(self.operands.value(node, at), int64)
