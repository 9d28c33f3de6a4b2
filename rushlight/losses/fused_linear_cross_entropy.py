"""The loss and its gradients without whole logits: the autograd function, and the order of work.

In: tensors in the form of `linear_cross_entropy.py`. At most LOGITS_AT_ONCE logits are alive.
Where one number is asked for ('mean', 'sum') the gradients are made with the loss; for 'none' they
are made in the backward, where the gradient of each token is known.
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
        if torch.is_grad_enabled():
            grads = _plain_gradients((x, w, b), target, weight, ctx.settings, d_loss, needs)
        elif ready:
            grads = [None if g is None else g * d_loss.to(g.dtype) for g in ready]
        else:
            work = _work(x, w, b, target, weight, ctx.settings)
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


def _work(x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings) -> Chunks:
    """The order of work: by tokens where enough of them fit, or where the options cut them."""
    rows, (classes, _, width), options = x.shape[0], w.shape, settings.options
    fitting = chunks.LOGITS_AT_ONCE // max(1, classes)
    by_size = options.chunking_method == "auto" and options.batch_chunk_size is None
    if by_size and fitting < min(FEW_TOKENS, rows):
        return ByClasses(x, w, b, target, weight, settings)
    step = options.rows_at_once(rows, width, classes, fitting)
    return ByTokens(x, w, b, target, weight, settings, step)
