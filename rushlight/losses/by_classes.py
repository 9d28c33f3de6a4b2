"""Blocks of tokens and classes: logsumexp first, then the gradients from logits made once more.

The order of work for large vocabularies, of whose logits only a few tokens would fit into the
limit. A fourth product pays for products of useful sizes, and the gradient of the weight is rounded
block by block, so that it is never whole in the working dtype. logsumexp of a token's row grows by
(M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3)

    m' = max(m, max z)      s' = s exp(m - m') + sum exp(z - m')      lse = m + log s
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rushlight as torch
from rushlight.losses import chunks
from rushlight.losses.chunks import Chunks, Settings, even_blocks
from rushlight.losses.plain_linear_cross_entropy import class_weight
from rushlight.losses.terms import Parts, logit_gradient, parts_of

TOKENS_AT_ONCE = 2048


class ByClasses(Chunks):
    def __init__(
        self, x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings
    ) -> None:
        super().__init__(x, w, b, target, weight, settings)
        self.rows = even_blocks(x.shape[0], TOKENS_AT_ONCE)
        most = max((rows.stop - rows.start for rows in self.rows), default=1)
        self.blocks = even_blocks(self.classes, max(1, chunks.LOGITS_AT_ONCE // most))
        # (position, first token) -> (logsumexp, parts of the whole row)
        self.known: dict[tuple[int, int], tuple[Any, Parts]] = {}

    def losses_only(self) -> None:
        for d in range(self.depth):
            for rows in self.rows:
                self._losses(d, rows)

    def _losses(self, d: int, rows: slice) -> None:
        target = self.target[rows, ..., d]
        x = self.x[rows].to(self.working)
        top = torch.full((x.shape[0],), -float("inf"), dtype=self.working)
        total, picked, spread, mass = (torch.zeros(x.shape[0], dtype=self.working) for _ in "abcd")
        for classes in self.blocks:
            z, part = self.logits(x, d, classes), self._part(d, rows, classes)
            highest = torch.maximum(top, z.amax(-1))
            # Infinite maxima shift by nothing: exp then gives 0 or inf, never NaN.
            old, new = (torch.where(torch.isinf(m), 0.0, m) for m in (top, highest))
            scaled = torch.where(total == 0, 0.0, total * torch.exp(old - new))
            total, top = scaled + torch.exp(z - new.unsqueeze(-1)).sum(-1), highest
            if part.safe_target is not None:
                own = torch.arange(z.shape[-1]) == part.safe_target.unsqueeze(-1)
                picked = picked + torch.where(own, z, 0.0).sum(-1)
            if part.spread is not None:
                spread = spread + (z * part.spread).sum(-1)
            if target.is_floating_point():
                mass = mass + part.mass
            del z, part
            torch.flush()
        lse = torch.where(torch.isinf(top), 0.0, top) + torch.log(total)
        whole = self._part(d, rows, self.blocks[0])
        whole = replace(whole, mass=mass) if target.is_floating_point() else whole
        losses = whole.mass * lse - spread * whole.valid
        if whole.own is not None:
            losses = losses - torch.where(whole.own == 0, 0.0, whole.own * picked)
        losses = torch.where(whole.valid == 0, 0.0, losses)
        weights = class_weight(target, self.weight, whole)
        self.pieces[d].append((losses, lse * lse * whole.valid, weights, whole.valid))
        self.known[d, rows.start] = (lse, whole)

    def _part(self, d: int, rows: slice, classes: slice) -> Parts:
        """The parts of a block: its share of `spread`, the target's place in it (or none)."""
        s, target = self.settings, self.target[rows, ..., d]
        if target.is_floating_point():
            weight = None if self.weight is None else self.weight[classes]
            return parts_of(
                target[:, classes], weight, self.classes, s.smoothing, s.ignored, self.working
            )
        parts = parts_of(target, self.weight, self.classes, s.smoothing, s.ignored, self.working)
        share = None if parts.spread is None else parts.spread[classes]
        return replace(parts, spread=share, safe_target=parts.safe_target - classes.start)

    def gradients(self, row_scale: Any, z_scale: Any, needs: tuple) -> list:
        self.losses_only()
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
                torch.flush()
        return [None if d_x is None else d_x.to(self.x.dtype), d_w, d_b]

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
            torch.flush()
        return of_w, of_b
