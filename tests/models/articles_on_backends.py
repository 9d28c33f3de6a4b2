"""FlexAttention and the loss without whole logits, forward and backward: what the articles train.

One source for all backends: `run()` gives named arrays.
"""

from __future__ import annotations

import numpy as np

import rushlight as torch
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention


def attention() -> dict[str, np.ndarray]:
    """A causal mask with a bias by distance that is learned, two heads."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 40, 8, requires_grad=True) for _ in range(3))
    slopes = torch.tensor([0.5, 0.25], requires_grad=True)

    def biased(score, b, h, q_idx, kv_idx):
        return score + slopes[h] * (kv_idx - q_idx)

    mask = create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 40, 40)
    out = flex_attention(q, k, v, score_mod=biased, block_mask=mask)
    (out * out).sum().backward()
    named = {"out": out.detach(), "q": q.grad, "k": k.grad, "v": v.grad, "slopes": slopes.grad}
    return {name: tensor.numpy() for name, tensor in named.items()}


def loss() -> dict[str, np.ndarray]:
    """Cross entropy of a linear layer, with targets that are left out."""
    torch.manual_seed(1)
    x, w = torch.randn(70, 16, requires_grad=True), torch.randn(90, 16, requires_grad=True)
    target = torch.randint(0, 90, (70,))
    target[::7] = -100
    found = torch.nn.functional.linear_cross_entropy(x, w, target)
    found.backward()
    return {"loss": found.detach().numpy(), "x": x.grad.numpy(), "w": w.grad.numpy()}


RUNS = {"attention": attention, "loss": loss}
