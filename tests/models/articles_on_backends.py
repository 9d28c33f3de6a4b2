"""FlexAttention, the loss without whole logits, and a step of a small residual network.

One source for all backends: each function gives named arrays.
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


class Block(torch.nn.Module):
    """A residual block that halves the image."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(inside, outside, 3, stride=2, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(outside)
        self.second = torch.nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.short = torch.nn.Conv2d(inside, outside, 1, stride=2, bias=False)

    def forward(self, x):
        found = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second(found) + self.short(x))


def resnet() -> dict[str, np.ndarray]:
    """Two steps of SGD with momentum."""
    torch.manual_seed(2)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(4, 8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    x, target = torch.randn(4, 3, 12, 12), torch.tensor([0, 3, 1, 4])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    named = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return {"losses": np.array(losses), **named}


RUNS = {"attention": attention, "loss": loss, "resnet": resnet}
