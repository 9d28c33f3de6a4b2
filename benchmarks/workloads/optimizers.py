"""Optimizer steps on 25 million parameters."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "fused optimizer step on 25 parameters of 1 million float32"
COUNT, NUMEL = 25, 1_000_000
# What a step reads and writes per parameter: itself, its gradient, its state.
WORDS = {"SGD": 3, "SGD momentum": 5, "Adam": 7, "AdamW": 7, "Adagrad": 5}
GOALS = dict.fromkeys(WORDS, ">= 1.0, 85 % of copy")


def cases():
    return {name: {"name": name} for name in WORDS}


def build(torch, name):
    rng = np.random.default_rng(0)
    parameters = []
    for _ in range(COUNT):
        p = torch.nn.Parameter(from_numpy(torch, rng.standard_normal(NUMEL, dtype=np.float32)))
        p.grad = from_numpy(torch, rng.standard_normal(NUMEL, dtype=np.float32))
        parameters.append(p)
    kind, _, momentum = name.partition(" ")
    options = {"momentum": 0.9} if momentum else {}
    optimizer = getattr(torch.optim, kind)(parameters, lr=1e-3, fused=True, **options)

    def run():
        # step() computes all parameters. They are not handed out: memory that numpy can see may
        # not be reused by a framework, and no training does that.
        optimizer.step()

    work = {"byte": 4.0 * WORDS[name] * COUNT * NUMEL}
    return Case(run, work, lambda _: [p.detach() for p in parameters])
