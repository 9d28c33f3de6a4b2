"""Fifty training steps of a network so small that only overhead counts."""

import numpy as np

from workloads import Case, from_numpy
from workloads.gpt import fill_weights

TITLE = "50 training steps of a 64-64-64-10 MLP, batch 32, SGD with momentum"
STEPS = 50
GOALS = {"eager": ">= 0.8", "module compiled": ">= 1.5", "compiled": ">= 5"}


def cases():
    return {name: {"compiled": name} for name in GOALS}


def build(torch, compiled):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    fill_weights(torch, model)
    rng = np.random.default_rng(1)
    batches = [
        (
            from_numpy(torch, rng.standard_normal((32, 64), dtype=np.float32)),
            from_numpy(torch, rng.integers(0, 10, 32)),
        )
        for _ in range(STEPS)
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    forward = torch.compile(model) if compiled == "module compiled" else model

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled == "compiled":
        step = torch.compile(step)

    def run():
        for x, y in batches:
            loss = step(x, y)
        return loss

    return Case(
        run, {"step": STEPS}, lambda loss: [loss, *(p.detach() for p in model.parameters())]
    )
