"""Optimizer steps on 25 million parameters."""

import numpy as np

from workloads import Case

TITLE = "optimizer step on 25 parameters of 1 million float32"
COUNT, NUMEL = 25, 1_000_000


def cases():
    return {
        "SGD momentum": {"name": "SGD", "options": {"lr": 1e-2, "momentum": 0.9}},
        "AdamW": {"name": "AdamW", "options": {"lr": 1e-3}},
        "AdamW fused": {"name": "AdamW", "options": {"lr": 1e-3, "fused": True}},
    }


def build(torch, name, options):
    rng = np.random.default_rng(0)
    parameters = []
    for _ in range(COUNT):
        p = torch.nn.Parameter(torch.from_numpy(rng.standard_normal(NUMEL, dtype=np.float32)))
        p.grad = torch.from_numpy(rng.standard_normal(NUMEL, dtype=np.float32))
        parameters.append(p)
    optimizer = getattr(torch.optim, name)(parameters, **options)

    def run():
        # step() computes all parameters. They are not handed out: memory that numpy can see may
        # not be reused by a framework, and no training does that.
        optimizer.step()

    # SGD reads p, g, m and writes p, m; AdamW reads p, g, m, v and writes p, m, v.
    words = 5 if name == "SGD" else 7
    work = {"byte": 4.0 * words * COUNT * NUMEL}
    return Case(run, work, lambda _: [p.detach() for p in parameters])
