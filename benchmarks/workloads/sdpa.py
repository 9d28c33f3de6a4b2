"""Causal attention, forward alone and with gradients."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "causal attention, 2x12 heads of 1024x64 float32"
SHAPE = (2, 12, 1024, 64)
GOALS = {"forward": ">= 1.3"}


def cases():
    return {"forward": {"backward": False}, "forward+backward": {"backward": True}}


def build(torch, backward):
    rng = np.random.default_rng(0)
    q, k, v = (from_numpy(torch, rng.standard_normal(SHAPE, dtype=np.float32)) for _ in range(3))
    for x in (q, k, v):
        x.requires_grad_(backward)

    def run():
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if not backward:
            return y
        for x in (q, k, v):
            x.grad = None
        y.sum().backward()
        return [y.detach(), q.grad, k.grad, v.grad]

    b, h, t, d = SHAPE
    # Two products, half of each masked away; the backward has five more.
    flop = 2.0 * b * h * t * t * d * (3.5 if backward else 1.0)
    return Case(run, {"flop": flop})
