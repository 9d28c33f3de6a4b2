"""A training step of a small convolutional network."""

import numpy as np

from workloads import Case
from workloads.gpt import fill_weights

TITLE = "training step of a 3-convolution network on 64 images of 3x32x32"


def cases():
    return {"eager": {"compiled": False}, "compiled": {"compiled": True}}


def build(torch, compiled):
    nn = torch.nn
    # No bias before a norm: its gradient is zero but for rounding, so no two libraries agree.
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    fill_weights(torch, model)
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.standard_normal((64, 3, 32, 32), dtype=np.float32))
    y = torch.from_numpy(rng.integers(0, 10, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def values(loss):
        return [loss, *(p.detach() for p in model.parameters())]

    return Case(torch.compile(step) if compiled else step, {"image": 64}, values, tolerance=5e-3)
