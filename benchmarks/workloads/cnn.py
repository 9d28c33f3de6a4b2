"""A training step of a small convolutional network."""

import numpy as np

from workloads import Case, from_numpy
from workloads.gpt import fill_weights

TITLE = "training step of a 4-convolution network (3-32-64-128-256) on 32 images of 3x32x32"
WIDTHS, BATCH, SIDE, CLASSES = (3, 32, 64, 128, 256), 32, 32, 10
GOALS = {"eager": ">= 2", "module compiled": ">= 2", "compiled": ">= 2"}


def cases():
    return {name: {"compiled": name} for name in GOALS}


def layers(nn):
    """Convolution, norm and ReLU, four times; the image is halved between two of them."""
    for number, (before, after) in enumerate(zip(WIDTHS, WIDTHS[1:], strict=False)):
        if number:
            yield nn.MaxPool2d(2)
        # No bias before a norm: its gradient is zero but for rounding, so no two libraries agree.
        yield nn.Conv2d(before, after, 3, padding=1, bias=False)
        yield nn.BatchNorm2d(after)
        yield nn.ReLU()
    yield from (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], CLASSES))


def flop():
    """Three products of the forward's size per convolution; the first has no gradient of images."""
    pairs = enumerate(zip(WIDTHS, WIDTHS[1:], strict=False))
    sizes = [(2 if i == 0 else 3) * a * b * (SIDE >> i) ** 2 for i, (a, b) in pairs]
    return 2.0 * 9 * BATCH * sum(sizes)


def build(torch, compiled):
    nn = torch.nn
    model = nn.Sequential(*layers(nn))
    fill_weights(torch, model)
    rng = np.random.default_rng(1)
    x = from_numpy(torch, rng.standard_normal((BATCH, WIDTHS[0], SIDE, SIDE), dtype=np.float32))
    y = from_numpy(torch, rng.integers(0, CLASSES, BATCH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    forward = torch.compile(model) if compiled == "module compiled" else model

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def values(loss):
        return [loss, *(p.detach() for p in model.parameters())]

    work = {"flop": flop(), "image": BATCH}
    return Case(
        torch.compile(step) if compiled == "compiled" else step, work, values, tolerance=5e-3
    )
