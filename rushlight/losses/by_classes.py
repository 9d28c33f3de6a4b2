"""Blocks of tokens and classes: logsumexp first, then the gradients from logits made once more.

The order of work for large vocabularies, of whose logits only a few tokens would fit into the
limit. A fourth product pays for products of useful sizes, and the gradient of the weight is rounded
block by block, so that it is never whole in the working dtype. logsumexp of a token's row grows by
(M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3)

    m' = max(m, max z)      s' = s exp(m - m') + sum exp(z - m')      lse = m + log s
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import rushlight as torch
from rushlight.losses import chunks
from rushlight.losses.chunks import Chunks, Settings, even_blocks
from rushlight.losses.plain_linear_cross_entropy import class_weight
from rushlight.losses.terms import Parts, logit_gradient, parts_of

TOKENS_AT_ONCE = 2048


@dataclass(frozen=True)
class RowSums:
    """What some classes give to the rows of tokens: all that the loss needs of their logits.

    top and total: largest logit, and sum of exp(logit - top); picked: the target's logit;
    spread: weighted logits; mass: the weight of lse where targets are probabilities, else 0.
    """

    top: Any
    total: Any
    picked: Any
    spread: Any
    mass: Any

    def lse(self) -> Any:
        return finite(self.top) + torch.log(self.total)

    def at(self, place: tuple) -> RowSums:
        """Of some rows."""
        return RowSums(*(part[place] for part in self.parts()))

    def parts(self) -> tuple[Any, ...]:
        return (self.top, self.total, self.picked, self.spread, self.mass)


def no_sums(count: int, working: Any) -> RowSums:
    """Of no classes."""
    top = torch.full((count,), -float("inf"), dtype=working)
    return RowSums(top, *(torch.zeros(count, dtype=working) for _ in range(4)))


def merged(a: RowSums, b: RowSums) -> RowSums:
    """Of the classes of both."""
    top = torch.maximum(a.top, b.top)
    total = _scaled(a, top) + _scaled(b, top)
    return RowSums(top, total, a.picked + b.picked, a.spread + b.spread, a.mass + b.mass)


def _scaled(sums: RowSums, top: Any) -> Any:
    factor = torch.exp(finite(sums.top) - finite(top))
    return torch.where(sums.total == 0, 0.0, sums.total * factor)


def finite(top: Any) -> Any:
    """Infinite maxima shift by nothing: exp then gives 0 or inf, never NaN."""
    return torch.where(torch.isinf(top), 0.0, top)


class ByClasses(Chunks):
    """`first`, `classes`: w holds the classes from `first` on, of so many (it holds all)."""

    def __init__(
        self, x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings,
        first: int = 0, classes: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(x, w, b, target, weight, settings)
        self.first, own = first, self.classes
        self.classes = own if classes is None else classes
        self.rows = even_blocks(x.shape[0], TOKENS_AT_ONCE)
        most = max((rows.stop - rows.start for rows in self.rows), default=1)
        self.blocks = even_blocks(own, max(1, chunks.LOGITS_AT_ONCE // most))
        # (position, first token) -> (logsumexp, parts of the whole row)
        self.known: dict[tuple[int, int], tuple[Any, Parts]] = {}

    def losses_only(self) -> None:
        for d in range(self.depth):
            for rows in self.rows:
                self.keep(d, rows, self.sums(d, rows))

    def sums(self, d: int, rows: slice) -> RowSums:
        """Over the classes that are here."""
        x = self.x[rows].to(self.working)
        found = no_sums(x.shape[0], self.working)
        for classes in self.blocks:
            z, part = self.logits(x, d, classes), self._part(d, rows, classes)
            found = merged(found, self._sums_of(z, part))
            del z, part
            self.finish_part()
        return found

    def _sums_of(self, z: Any, part: Parts) -> RowSums:
        """Of one block."""
        top = z.amax(-1)
        picked = spread = mass = torch.zeros_like(top)
        if part.safe_target is not None:
            own = torch.arange(z.shape[-1]) == part.safe_target.unsqueeze(-1)
            picked = torch.where(own, z, 0.0).sum(-1)
        else:
            mass = part.mass
        if part.spread is not None:
            spread = (z * part.spread).sum(-1)
        return RowSums(top, torch.exp(z - finite(top).unsqueeze(-1)).sum(-1), picked, spread, mass)

    def keep(self, d: int, rows: slice, sums: RowSums) -> None:
        """The losses of these tokens, from the sums over all classes."""
        target = self.target[rows, ..., d]
        lse = sums.lse()
        if target.is_floating_point():
            whole = replace(self._part(d, rows, self.blocks[0]), mass=sums.mass)
        else:
            whole = self._of_hard(target)
        losses = whole.mass * lse - sums.spread * whole.valid
        if whole.own is not None:
            losses = losses - torch.where(whole.own == 0, 0.0, whole.own * sums.picked)
        losses = torch.where(whole.valid == 0, 0.0, losses)
        weights = class_weight(target, self.weight, whole)
        self.pieces[d].append((losses, lse * lse * whole.valid, weights, whole.valid))
        self.known[d, rows.start] = (lse, whole)

    def _part(self, d: int, rows: slice, classes: slice) -> Parts:
        """The parts of a block: its share of `spread`, the target's place in it (or none)."""
        target = self.target[rows, ..., d]
        place = slice(self.first + classes.start, self.first + classes.stop)
        if target.is_floating_point():
            s, weight = self.settings, None if self.weight is None else self.weight[place]
            return parts_of(
                target[:, classes], weight, self.classes, s.smoothing, s.ignored, self.working
            )
        parts = self._of_hard(target)
        share = None if parts.spread is None else parts.spread[place]
        return replace(parts, spread=share, safe_target=parts.safe_target - place.start)

    def _of_hard(self, target: Any) -> Parts:
        """For all classes."""
        s = self.settings
        return parts_of(target, self.weight, self.classes, s.smoothing, s.ignored, self.working)

    def gradients(self, row_scale: Any, z_scale: Any, needs: tuple) -> list:
        self.losses_only()
        d_x, d_w, d_b = self.gradients_of_kept(row_scale, z_scale, needs)
        return [None if d_x is None else d_x.to(self.x.dtype), d_w, d_b]

    def gradients_of_kept(self, row_scale: Any, z_scale: Any, needs: tuple) -> list:
        """With the losses of all tokens kept; of x in the working dtype."""
        needs_x, needs_w, needs_b = needs
        d_x = torch.zeros(self.x.shape, dtype=self.working) if needs_x else None
        d_w = torch.zeros(self.w.shape, dtype=self.w.dtype) if needs_w else None
        d_b = torch.zeros(self.b.shape, dtype=self.b.dtype) if needs_b else None
        for d in range(self.depth):
            for classes in self.blocks:
                scales = (row_scale, z_scale)
                of_w, of_b = self._block_gradients(d, classes, scales, d_x, needs_w, needs_b)
                if d_w is not None:
                    d_w[classes, d] = of_w.to(d_w.dtype)
                if d_b is not None:
                    d_b[classes, d] = of_b.to(d_b.dtype)
                del of_w, of_b
                self.finish_part()
        return [d_x, d_w, d_b]

    def _block_gradients(
        self, d: int, classes: slice, scales: tuple, d_x: Any, needs_w: bool, needs_b: bool
    ) -> tuple[Any, Any]:
        """Adds to d_x; the gradients of these classes' weights and biases."""
        row_scale, z_scale = scales
        count = classes.stop - classes.start
        of_w = torch.zeros((count, self.width), dtype=self.working) if needs_w else None
        of_b = torch.zeros(count, dtype=self.working) if needs_b else None
        for rows in self.rows:
            lse, whole = self.known[d, rows.start]
            parts = replace(self._part(d, rows, classes), mass=whole.mass)
            x = self.x[rows].to(self.working)
            z = self.logits(x, d, classes)
            squares = None if z_scale is None else z_scale[rows, d]
            g = self.through_cap(logit_gradient(z, lse, parts, row_scale[rows, d], squares), z)
            if d_x is not None:
                d_x[rows] += g @ self.w[classes, d].to(self.working)
            if of_w is not None:
                of_w += g.transpose(0, 1) @ x
            if of_b is not None:
                of_b += g.sum(0)
            del x, z, g, parts
            self.finish_part()
        return of_w, of_b
