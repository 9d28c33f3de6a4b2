"""Chunks of tokens with all their classes: three products, each logit is made once.

The order of work as long as a useful number of tokens fits into the limit; the gradients are made
in the same pass as the losses.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.losses.chunks import Chunks, Settings, even_blocks
from rushlight.losses.plain_linear_cross_entropy import class_weight
from rushlight.losses.terms import logit_gradient, parts_of, token_losses


class ByTokens(Chunks):
    """`step`: at most so many tokens at once."""

    def __init__(
        self, x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings, step: int
    ) -> None:
        super().__init__(x, w, b, target, weight, settings)
        blocks = even_blocks(x.shape[0], step)
        self.order = [(d, rows) for d in range(self.depth) for rows in blocks]

    def _chunk(self, d: int, rows: slice) -> tuple[Any, Any, Any, Any]:
        """(x of the chunk, logits, logsumexp, parts); keeps the losses."""
        s, target = self.settings, self.target[rows, ..., d]
        x = self.x[rows].to(self.working)
        z = self.logits(x, d)
        parts = parts_of(target, self.weight, self.classes, s.smoothing, s.ignored, self.working)
        lse = torch.logsumexp(z, -1)
        losses, weights = token_losses(z, lse, parts), class_weight(target, self.weight, parts)
        self.pieces[d].append((losses, lse * lse * parts.valid, weights, parts.valid))
        return x, z, lse, parts

    def finish_part(self) -> None:
        if len(self.order) > 1:
            super().finish_part()

    def losses_only(self) -> None:
        for chunk in self.order:
            self._chunk(*chunk)
            self.finish_part()

    def gradients(self, row_scale: Any, z_scale: Any, needs: tuple) -> list:
        d_x, d_w, d_b = self.empty_gradients(needs)
        for d, rows in self.order:
            x, z, lse, parts = self._chunk(d, rows)
            squares = None if z_scale is None else z_scale[rows, d]
            g = self.through_cap(logit_gradient(z, lse, parts, row_scale[rows, d], squares), z)
            if d_x is not None:
                d_x[rows] += g @ self.w[:, d].to(self.working)
            if d_w is not None:
                d_w[:, d] += g.transpose(0, 1) @ x
            if d_b is not None:
                d_b[:, d] += g.sum(0)
            del x, z, lse, parts, squares, g
            self.finish_part()
        likes = zip((d_x, d_w, d_b), (self.x, self.w, self.b), strict=True)
        return [None if g is None else g.to(like.dtype) for g, like in likes]
