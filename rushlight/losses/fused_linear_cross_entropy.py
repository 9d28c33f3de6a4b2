"""The loss and its gradients without whole logits: the autograd function, and the order of work.

In: tensors in the form of `linear_cross_entropy.py`. At most LOGITS_AT_ONCE logits are alive.
Where one number is asked for ('mean', 'sum') the gradients are made with the loss; for 'none' they
are made in the backward, where the gradient of each token is known. Gradients of gradients have
whole logits.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.losses import chunks
from rushlight.losses.by_classes import ByClasses
from rushlight.losses.by_tokens import ByTokens
from rushlight.losses.chunks import Chunks, Settings
from rushlight.losses.plain_linear_cross_entropy import plain_loss

# With fewer tokens at once, reading the weight and its gradient costs more than a fourth product.
FEW_TOKENS = 64


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
        work = _work(x, w, b, target, weight, settings)
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
        rest = (target, weight, ctx.settings, needs, ready)
        with x.device:
            return (*_FusedGradient.apply(x, w, b, d_loss, *rest), None, None, None)


class _FusedGradient(torch.autograd.Function):
    """The gradients of the loss, without whole logits; theirs come from the plain form."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, w: Any, b: Any, d_loss: Any, target: Any, weight: Any, settings: Any,
        needs: tuple, ready: list,
    ) -> tuple:  # fmt: skip
        ctx.settings, ctx.needs = settings, needs
        ctx.save_for_backward(x, w, b, d_loss, target, weight)
        if ready:
            return tuple(None if g is None else g * d_loss.to(g.dtype) for g in ready)
        work = _work(x, w, b, target, weight, settings)
        rows = d_loss.to(work.working).expand(work.shape)
        z_scale = rows * settings.z_loss if settings.z_loss else None
        return tuple(work.gradients(rows, z_scale, needs))

    @staticmethod
    def backward(ctx: Any, *d_grads: Any) -> tuple:
        *inputs, target, weight = ctx.saved_tensors
        again, none = torch.is_grad_enabled(), (None,) * 5
        with torch.enable_grad(), inputs[0].device:
            # Views, so that only the loss itself is differentiated here, not what is before it.
            *views, d_loss = (t if t is None else _watched(t, again) for t in inputs)
            loss = plain_loss(*views, target, weight, ctx.settings)
            wanted = [t for t, need in zip(views, ctx.needs, strict=True) if need]
            grads = torch.autograd.grad(loss, wanted, d_loss, create_graph=True)
            given = [g for g in d_grads if g is not None]
            asked = [t for t in (*views, d_loss) if t is not None]
            found = torch.autograd.grad(
                grads, asked, given, create_graph=again, allow_unused=True
            )  # fmt: skip
        by_input = iter(found)
        return (*(None if t is None else next(by_input) for t in (*views, d_loss)), *none)


def _watched(tensor: Any, with_history: bool) -> Any:
    """A tensor to differentiate by."""
    if with_history and tensor.requires_grad:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_()


def _work(x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings) -> Chunks:
    """The order of work: by tokens where enough of them fit, or where the options cut them."""
    rows, (classes, _, width), options = x.shape[0], w.shape, settings.options
    fitting = chunks.LOGITS_AT_ONCE // max(1, classes)
    by_size = options.chunking_method == "auto" and options.batch_chunk_size is None
    if by_size and fitting < min(FEW_TOKENS, rows):
        return ByClasses(x, w, b, target, weight, settings)
    step = options.rows_at_once(rows, width, classes, fitting)
    return ByTokens(x, w, b, target, weight, settings, step)
