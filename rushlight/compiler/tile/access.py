"""From a graph node at given coordinates to a scalar expression.

`Access.value(node, at)` is the expression of element `at` of `node` in terms of loads from
materialised values. Movement ops only change coordinates, so a view never costs a copy;
elementwise ops apply their record's scalar body; a masked region guards the loads below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rushlight.base.dtypes import BYTE_FLOATS, DType, bool_, int64, uint8
from rushlight.compiler.graph.in_range import is_in_range
from rushlight.compiler.tile.coords import (
    broadcast_coords,
    linear,
    reshape_coords,
    strides_of,
)
from rushlight.compiler.tile.fold import fold
from rushlight.ir import scalar as s
from rushlight.ir.node import Node
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, is_less, is_nonnegative
from rushlight.ops.pairs import FILLS
from rushlight.ops.random import random_bits_scalar

Index = "int | Expr"
Coords = tuple


class Access:
    """Builds expressions for one kernel.

    leaf(node, at, mask) -> E or None: how the kernel reads a materialised node (a load from a
    buffer, a local tile, `acc`); None means "not materialised: compute it here".
    number(node) -> E: the parameter of a scalar leaf.  site(node) -> int: index check number.
    """

    def __init__(
        self,
        leaf: Callable[[Node, Coords, E | None], E | None],
        number: Callable[[Node], E],
        site: Callable[[Node], int],
    ) -> None:
        self._leaf, self._number, self._site = leaf, number, site
        self._memo: dict[tuple[Node, Coords, E | None], E] = {}

    def value(self, node: Node, at: Coords, mask: E | None = None) -> E:
        """Element `at` (one index per dim of node.shape). `mask` false: reads nothing below."""
        found = self._memo.get((node, at, mask))
        return self._walk((node, at, mask)) if found is None else found

    def _walk(self, root: tuple[Node, Coords, E | None]) -> E:
        """Fill the memo up to `root`. Elementwise chains are long: a stack, not recursion."""
        memo = self._memo
        stack = [(root, False)]
        while stack:
            key, sources_done = stack.pop()
            if key in memo:
                continue
            node, at, mask = key
            if sources_done:
                memo[key] = self._elementwise(node, at, mask)
                continue
            read = self._read(node, at, mask)
            if read is not None:
                memo[key] = read
            elif node.op is not None and node.op.kind == "elementwise":
                stack.append((key, True))
                stack.extend(
                    ((src, broadcast_coords(src.shape, at), mask), False)
                    for src in reversed(node.src)
                )
            else:
                memo[key] = self._move(node, at, mask)
        return memo[root]

    def _read(self, node: Node, at: Coords, mask: E | None) -> E | None:
        if node.leaf == "const":
            return s.const(node.attrs[0], node.dtype)
        return self._number(node) if node.leaf == "scalar" else self._leaf(node, at, mask)

    def _move(self, node: Node, at: Coords, mask: E | None) -> E:
        build = self._MOVES.get(node.name)
        if build is None:
            raise AssertionError(f"{node.name} must be materialised before it is read")
        return build(self, node, at, mask)

    def _elementwise(self, node: Node, at: Coords, mask: E | None) -> E:
        op = node.op
        assert op is not None
        args = [self.value(src, broadcast_coords(src.shape, at), mask) for src in node.src]
        folded = fold(op.name, args)
        if folded is not None:
            return folded
        attrs = dict(zip(op.attr_index, node.attrs, strict=False))
        body = scalar_body(op.scalar)
        if op.name in ("cast", "bitcast"):  # they say themselves what they do with narrow floats
            return body(*args, **attrs)
        compute = [s.cast(a, a.dtype.compute) for a in args]
        result = body(*compute, **attrs)
        return result if result.dtype is node.dtype else s.cast(result, node.dtype)

    # movement -------------------------------------------------------------------------------

    def _reshape(self, node: Node, at: Coords, mask: E | None) -> E:
        source = node.src[0]
        return self.value(source, reshape_coords(at, node.shape, source.shape), mask)

    def _permute(self, node: Node, at: Coords, mask: E | None) -> E:
        source_at: list[Any] = [0] * len(at)
        for position, dim in enumerate(node.attrs[0]):
            source_at[dim] = at[position]
        return self.value(node.src[0], tuple(source_at), mask)

    def _expand(self, node: Node, at: Coords, mask: E | None) -> E:
        return self.value(node.src[0], broadcast_coords(node.src[0].shape, at), mask)

    def _slice(self, node: Node, at: Coords, mask: E | None) -> E:
        moved = tuple(
            start + i * step
            for i, start, step in zip(at, node.attr("start"), node.attr("step"), strict=True)
        )
        return self.value(node.src[0], moved, mask)

    def _flip(self, node: Node, at: Coords, mask: E | None) -> E:
        dims = node.attrs[0]
        moved = tuple(
            n - 1 - i if d in dims else i
            for d, (i, n) in enumerate(zip(at, node.shape, strict=True))
        )
        return self.value(node.src[0], moved, mask)

    def _pad(self, node: Node, at: Coords, mask: E | None) -> E:
        source, fill = node.src
        inside: E | None = None
        moved = []
        for i, low, inner, n in zip(
            at, node.attr("low"), node.attr("interior"), source.shape, strict=True
        ):
            shifted = i - low
            if inner:
                inside = both(inside, divides(shifted, inner + 1))
                span = (n - 1) * (inner + 1) + 1
                inside = both(inside, in_range(shifted, span))
                shifted = shifted // (inner + 1)
            else:
                inside = both(inside, in_range(shifted, n))
            moved.append(shifted)
        value = self.value(source, tuple(moved), both(mask, inside))
        if inside is None:
            return value
        return select(inside, value, self.value(fill, (), mask))

    def _cat(self, node: Node, at: Coords, mask: E | None) -> E:
        dim = node.attrs[0]
        i = at[dim]
        offset: Any = 0
        pieces = []
        for source in node.src:
            moved = (*at[:dim], i - offset, *at[dim + 1 :])
            inside = in_range(i - offset, source.shape[dim])
            pieces.append((inside, source, moved))
            offset = offset + source.shape[dim]
        result: E | None = None
        for inside, source, moved in reversed(pieces):
            value = self.value(source, moved, both(mask, inside))
            if result is None or inside is None:
                result = value
            else:
                result = select(inside, value, result)
        assert result is not None
        return result

    def _unfold(self, node: Node, at: Coords, mask: E | None) -> E:
        dim, step, dilation = node.attr("dim"), node.attr("step"), node.attr("dilation")
        moved = list(at[:-1])
        moved[dim] = at[dim] * step + at[-1] * dilation
        return self.value(node.src[0], tuple(moved), mask)

    def _slice_scatter(self, node: Node, at: Coords, mask: E | None) -> E:
        base, update = node.src
        inside: E | None = None
        moved = []
        for i, start, length, step in zip(
            at, node.attr("start"), node.attr("length"), node.attr("step"), strict=True
        ):
            shifted = i - start
            if step != 1:
                inside = both(inside, divides(shifted, step))
                inside = both(inside, in_range(shifted, (length - 1) * step + 1))
                shifted = shifted // step
            else:
                inside = both(inside, in_range(shifted, length))
            moved.append(shifted)
        new = self.value(update, tuple(moved), both(mask, inside))
        if inside is None:
            return new
        return select(inside, new, self.value(base, at, mask))

    # generated and gathered values ------------------------------------------------------------

    def _iota(self, node: Node, at: Coords, mask: E | None) -> E:
        return s.cast(s.index(at[0]), node.dtype)

    def _pair_index(self, node: Node, at: Coords, mask: E | None) -> E:
        return s.index(at[node.attr("dim")])

    def _pair_mask(self, node: Node, at: Coords, mask: E | None) -> E:
        """One that is no mask of the kernel: written out. Tables only repeat what it says."""
        x, *others = node.src
        value = self.value(x, at, mask)
        kept: E | None = None
        if node.attrs[-1]:  # which optional operands there are: keep
            kept = self.value(others[0], broadcast_coords(others[0].shape, at), mask)
        if node.attr("is_causal"):
            kept = both(kept, in_order(at[-1], at[-2]))
        outside = s.const(FILLS[node.attr("fill")], value.dtype)
        return value if kept is None else s.select(kept, value, outside)

    def _random_bits(self, node: Node, at: Coords, mask: E | None) -> E:
        seed, offset = (self.value(src, (), mask) for src in node.src)
        return random_bits_scalar(seed, offset, s.index(linear(at, strides_of(node.shape))))

    def _gather_nd(self, node: Node, at: Coords, mask: E | None) -> E:
        source, *indices = node.src
        rank = len(indices[0].shape)
        picked = []
        checked: list[E] = []
        for index, size in zip(indices, source.shape, strict=False):
            value = s.cast(self.value(index, at[:rank], mask), int64)
            if mask is not None:
                value = select(mask, value, s.const(0, int64))
            if not _provably_inside(value, size) and not is_in_range(index, size):
                value = s.check_index(value, size, self._site(node))
                checked.append(value)
            picked.append(s.as_index(value, 0, size - 1))
        found = self.value(source, (*picked, *at[rank:]), mask)
        if found.op in ("const", "param"):
            # The same element everywhere: the load is gone, but the check must not go with it.
            for value in checked:
                inside = s.ge(value, s.const(0, int64))
                found = s.make("select", (inside, found, found), found.dtype)
        return found

    _MOVES: ClassVar[dict[str, Callable[..., E]]] = {
        "reshape": _reshape,
        "permute": _permute,
        "expand": _expand,
        "slice_": _slice,
        "flip": _flip,
        "pad": _pad,
        "cat": _cat,
        "unfold": _unfold,
        "slice_scatter_": _slice_scatter,
        "iota": _iota,
        "pair_index": _pair_index,
        "pair_mask": _pair_mask,
        "random_bits": _random_bits,
        "gather_nd": _gather_nd,
    }


def scalar_body(scalar: Any) -> Callable[..., E]:
    """The function a record's `scalar` field stands for."""
    if not isinstance(scalar, str):
        return scalar
    if scalar in s.MATH_UNARY:
        return lambda x: s.math(scalar, x)
    return getattr(s, scalar, None) or getattr(s, f"{scalar}_")


def _provably_inside(value: E, size: int | Expr) -> bool:
    if value.op != "index":
        return False
    return is_nonnegative(value.meta) and is_less(value.meta, size)


def in_range(i: int | Expr, size: int | Expr) -> E | None:
    """0 <= i < size as a condition; None when it is always so."""
    low = None if is_nonnegative(i) else s.ge(s.index(i), s.const(0, int64))
    high = None if is_less(i, size) else s.lt(s.index(i), s.index(size))
    return both(low, high)


def in_order(i: int | Expr, j: int | Expr) -> E:
    """i <= j."""
    return s.le(s.index(i), s.index(j))


def divides(i: int | Expr, step: int) -> E | None:
    rest = i % step
    return None if rest == 0 else s.eq(s.index(rest), s.const(0, int64))


def both(a: E | None, b: E | None) -> E | None:
    if a is None or b is None:
        return b if a is None else a
    return s.make("and", (a, b), bool_)


def select(condition: E, a: E, b: E) -> E:
    """select for any dtype: bfloat16 and float16 pass through float32 (exactly)."""
    dtype: DType = a.dtype
    if dtype in BYTE_FLOATS:
        return s.bitcast(s.select(condition, s.bitcast(a, uint8), s.bitcast(b, uint8)), dtype)
    if dtype.compute is dtype:
        return s.select(condition, a, b)
    wide = s.select(condition, s.cast(a, dtype.compute), s.cast(b, dtype.compute))
    return s.cast(wide, dtype)


def load_of(buffer: Any, shape: Sequence[int | Expr], at: Coords, mask: E | None) -> E:
    """Element `at` of a row-major buffer."""
    return s.load(buffer, linear(at, strides_of(shape)), mask)
