"""Kernels that should cost little more than one pass over memory."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "one pass over memory: norms, transposes, embedding, random numbers"
ROWS, COLUMNS, VOCAB, WIDTH = 4096, 1024, 4096, 256
SIZE = ROWS * COLUMNS


def cases():
    return {name: {"name": name} for name in MAKERS}


def build(torch, name):
    return MAKERS[name](torch, np.random.default_rng(0))


def normal(torch, rng, *shape):
    return from_numpy(torch, rng.standard_normal(shape, dtype=np.float32))


def layer_norm(torch, rng):
    """Forward and backward."""
    x, g = normal(torch, rng, ROWS, COLUMNS), normal(torch, rng, ROWS, COLUMNS)
    norm = torch.nn.LayerNorm(COLUMNS)
    inputs = [x.requires_grad_(), norm.weight, norm.bias]

    def run():
        return list(torch.autograd.grad(norm(x), inputs, g))

    # Forward: x is read, the result written; backward: x and g are read, a gradient is written.
    return Case(run, {"byte": 5 * 4.0 * SIZE})


def transpose(torch, rng):
    x = normal(torch, rng, ROWS, COLUMNS)
    return Case(lambda: x.T.contiguous(), {"byte": 8.0 * SIZE})


def swap_heads(torch, rng):
    """[batch, time, heads, width] to [batch, heads, time, width]."""
    x = normal(torch, rng, 8, 1024, 8, 64)
    return Case(lambda: x.transpose(1, 2).contiguous(), {"byte": 8.0 * x.numel()})


def column_sums(torch, rng):
    x = normal(torch, rng, ROWS, COLUMNS)
    return Case(lambda: x.sum(0), {"byte": 4.0 * SIZE})


def turned_means(torch, rng):
    """Of what lies in memory in another order than the result."""
    x = normal(torch, rng, 64, 64, 1024).permute(2, 0, 1)
    return Case(lambda: x.mean(1), {"byte": 4.0 * x.numel()})


def embedding_backward(torch, rng):
    weight = normal(torch, rng, VOCAB, WIDTH).requires_grad_()
    tokens = from_numpy(torch, rng.integers(0, VOCAB, 16384))
    g = normal(torch, rng, 16384, WIDTH)

    def run():
        y = torch.nn.functional.embedding(tokens, weight)
        return list(torch.autograd.grad(y, [weight], g))

    return Case(run, {"byte": 4.0 * WIDTH * (16384 + VOCAB)})


def flipped(torch, x):
    return Case(lambda: x.flip(1), {"byte": 8.0 * SIZE})


def moments(y):
    """Each framework may draw other numbers, of one distribution."""
    return [(y * y).mean(), (y * y * y * y).mean()]


def random_fill(torch, draw):
    torch.manual_seed(0)
    return Case(lambda: draw(SIZE), {"byte": 4.0 * SIZE}, moments, tolerance=1e-2)


def dropout(torch, rng):
    x = normal(torch, rng, ROWS, COLUMNS)
    work = {"byte": 8.0 * SIZE}
    return Case(lambda: torch.nn.functional.dropout(x, 0.1), work, moments, tolerance=1e-2)


MAKERS = {
    "layer norm": layer_norm,
    "transpose": transpose,
    "swap heads": swap_heads,
    "column sums": column_sums,
    "turned means": turned_means,
    "flip": lambda torch, rng: flipped(torch, normal(torch, rng, ROWS, COLUMNS)),
    "embedding backward": embedding_backward,
    "rand": lambda torch, rng: random_fill(torch, torch.rand),
    "randn": lambda torch, rng: random_fill(torch, torch.randn),
    "dropout": dropout,
}
