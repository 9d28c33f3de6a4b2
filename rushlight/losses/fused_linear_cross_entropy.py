"""The loss and its gradients, chunk by chunk of tokens.

In: tensors in the form of `linear_cross_entropy.py`. A chunk has at most LOGITS_AT_ONCE logits;
they are gone before the next one. Where one number is asked for ('mean', 'sum') the gradients are
made in the same pass as the loss (three products); for 'none' they are made in the backward, where
the gradient of each token is known. Always true: chunks and their order depend on shapes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight.losses.options import LinearCrossEntropyOptions
from rushlight.losses.plain_linear_cross_entropy import class_weight, plain_loss, reduced
from rushlight.losses.terms import logit_gradient, parts_of, token_losses

LOGITS_AT_ONCE = 1 << 22  # 16 MiB of float32


@dataclass(frozen=True)
class Settings:
    """How to compute: the reduction, the ignored class, smoothing, z-loss, cap, chunks."""

    reduction: str
    ignored: int
    smoothing: float
    z_loss: float
    softcap: float | None
    options: LinearCrossEntropyOptions


def fused_loss(
    x_NF: Any,
    w_CDF: Any,
    b_CD: Any,
    target: Any,
    weight: Any,
    settings: Settings,  # noqa: N803
) -> Any:
    """The loss; differentiable in x, w and b."""
    return _Fused.apply(x_NF, w_CDF, b_CD, target, weight, settings)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Any) -> Any:
        work = _Work(x, w, b, target, weight, settings)
        ctx.settings, grads = settings, []
        if settings.reduction != "none" and any(ctx.needs_input_grad):
            grads = work.gradients(*work.own_scales(), ctx.needs_input_grad[:3])
        else:
            work.losses_only()
        ctx.save_for_backward(x, w, b, target, weight, *grads)
        return work.result()

    @staticmethod
    def backward(ctx: Any, d_loss: Any) -> tuple:
        x, w, b, target, weight, *ready = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            grads = _plain_gradients((x, w, b), target, weight, ctx.settings, d_loss, needs)
        elif ready:
            grads = [None if g is None else g * d_loss.to(g.dtype) for g in ready]
        else:
            work = _Work(x, w, b, target, weight, ctx.settings)
            rows = d_loss.to(work.working).expand(work.shape)
            z_scale = rows * ctx.settings.z_loss if ctx.settings.z_loss else None
            grads = work.gradients(rows, z_scale, needs)
        return (*grads, None, None, None)


def _plain_gradients(
    inputs: tuple, target: Any, weight: Any, settings: Settings, d_loss: Any, needs: tuple
) -> list:
    """Gradients that can be differentiated again."""
    # Views, so that only the loss itself is differentiated here, not what is before it.
    views = [t if t is None else t.view_as(t) for t in inputs]
    loss = plain_loss(*views, target, weight, settings)
    wanted = [t for t, need in zip(views, needs, strict=True) if need]
    found = iter(torch.autograd.grad(loss, wanted, d_loss, create_graph=True))
    return [next(found) if need else None for need in needs]


class _Work:
    """One pass over the chunks."""

    def __init__(
        self, x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings
    ) -> None:
        self.x, self.w, self.b, self.target, self.weight = x, w, b, target, weight
        self.settings = settings
        self.working = torch.float64 if x.dtype is torch.float64 else torch.float32
        self.classes, depth, width = w.shape
        self.shape = (x.shape[0], depth)
        fitting = LOGITS_AT_ONCE // max(1, self.classes)
        self.step = settings.options.rows_at_once(x.shape[0], width, self.classes, fitting)
        self.pieces: dict[int, list] = {d: [] for d in range(depth)}

    def chunks(self) -> list[tuple[int, int, int]]:
        """(position, first token, last token + 1), in order."""
        rows, depth = self.shape
        return [
            (d, start, min(start + self.step, rows))
            for d in range(depth)
            for start in range(0, rows, self.step)
        ]

    def _chunk(self, d: int, start: int, stop: int) -> tuple[Any, Any, Any, Any]:
        """(x of the chunk, logits, how they were bent, parts); keeps the losses."""
        settings = self.settings
        x = self.x[start:stop].to(self.working)
        z = x @ self.w[:, d].to(self.working).transpose(0, 1)
        z = z if self.b is None else z + self.b[:, d].to(self.working)
        if settings.softcap is not None:
            z = settings.softcap * torch.tanh(z / settings.softcap)
        parts = self._parts(d, start, stop)
        lse = torch.logsumexp(z, -1)
        losses = token_losses(z, lse, parts)
        weights = class_weight(self.target[start:stop, ..., d], self.weight, parts)
        self.pieces[d].append((losses, lse * lse * parts.valid, weights, parts.valid))
        return x, z, lse, parts

    def _parts(self, d: int, start: int, stop: int) -> Any:
        s = self.settings
        return parts_of(
            self.target[start:stop, ..., d], self.weight, self.classes, s.smoothing, s.ignored,
            self.working,
        )  # fmt: skip

    def losses_only(self) -> None:
        chunks = self.chunks()
        for chunk in chunks:
            self._chunk(*chunk)
            if len(chunks) > 1:
                torch.flush()

    def own_scales(self) -> tuple[Any, Any]:
        """What each token's loss and squared logsumexp are multiplied by in the result."""
        ones = torch.ones(self.shape, dtype=self.working)
        coefficient = self.settings.z_loss
        if self.settings.reduction == "sum":
            return ones, ones * coefficient if coefficient else None
        if self.target.is_floating_point():
            weights = counts = torch.tensor(float(ones.numel()), dtype=self.working)
        else:
            keep = self.target != self.settings.ignored
            counts = keep.to(self.working).sum()
            weights = counts
            if self.weight is not None:
                picked = self.weight.to(self.working)[torch.where(keep, self.target, 0).long()]
                weights = torch.where(keep, picked, 0.0).sum()
        scale = torch.where(weights == 0, 0.0, 1.0 / weights)
        z_scale = torch.where(counts == 0, 0.0, coefficient / counts)
        return ones * scale, ones * z_scale if coefficient else None

    def gradients(self, row_scale: Any, z_scale: Any, needs: tuple) -> list:
        """Gradients of x, w, b for (N, D) factors of the tokens; None where not needed."""
        dtype = self.working
        d_x = torch.zeros(self.x.shape, dtype=dtype) if needs[0] else None
        d_w = torch.zeros(self.w.shape, dtype=dtype) if needs[1] else None
        d_b = torch.zeros(self.b.shape, dtype=dtype) if needs[2] else None
        chunks = self.chunks()
        for d, start, stop in chunks:
            x, z, lse, parts = self._chunk(d, start, stop)
            rows = row_scale[start:stop, d]
            squares = None if z_scale is None else z_scale[start:stop, d]
            g = logit_gradient(z, lse, parts, rows, squares)
            if self.settings.softcap is not None:
                g = g * (1.0 - (z / self.settings.softcap) ** 2)
            if d_x is not None:
                d_x[start:stop] += g @ self.w[:, d].to(dtype)
            if d_w is not None:
                d_w[:, d] += g.transpose(0, 1) @ x
            if d_b is not None:
                d_b[:, d] += g.sum(0)
            del x, z, lse, parts, rows, squares, g
            if len(chunks) > 1:
                torch.flush()
        likes = (self.x, self.w, self.b)
        grads = (d_x, d_w, d_b)
        return [None if g is None else g.to(t.dtype) for g, t in zip(grads, likes, strict=True)]

    def result(self) -> Any:
        """The loss from what the chunks left."""
        columns = []
        for d in range(self.shape[1]):
            pieces = zip(*self.pieces[d], strict=True) if self.pieces[d] else ()
            columns.append([torch.cat(list(p)) for p in pieces])
        empty = torch.zeros(self.shape, dtype=self.working)
        if not self.shape[0] or not self.shape[1]:
            return reduced(empty, empty, empty, empty, self.settings).to(self.x.dtype)
        loss, square, weights, counts = (torch.stack([c[i] for c in columns], -1) for i in range(4))
        return reduced(loss, square, weights, counts, self.settings).to(self.x.dtype)
