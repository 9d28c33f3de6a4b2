"""Batches of other sizes: programs have the sizes as variables, gradients too."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.engine.realize import PROGRAMS

F = torch.nn.functional
FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "mean of columns": lambda x: x.mean(0).sum(),
    "var": lambda x: x.var(0).sum(),
    "std": lambda x: x.std(),
    "mse": lambda x: F.mse_loss(x, torch.zeros_like(x)),
    "huber": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros_like(x)),
    "kl": lambda x: F.kl_div(x, x.detach().exp(), reduction="batchmean"),
    "cross entropy": lambda x: F.cross_entropy(x, x.argmax(1)),
    "softmax": lambda x: (x.softmax(0) ** 2).mean(),
    "batch norm": lambda x: (F.batch_norm(x, None, None, training=True) ** 3).mean(),
    "layer norm": lambda x: (F.layer_norm(x, (5,)) ** 3).mean(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]).mean(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_new_size_is_no_new_program(name):
    weight = torch.ones(3, 5, requires_grad=True)
    compiled = []
    for rows in (7, 9, 12, 15, 21, 30):
        x = torch.arange(3.0 * rows).reshape(rows, 3).sin()
        weight.grad = None
        before = PROGRAMS.compiled
        FUNCTIONS[name](x @ weight).backward()
        weight.grad.tolist()
        compiled.append(PROGRAMS.compiled - before)
    assert not any(compiled[3:]), compiled


INDEXED = {  # of x (rows, 5), by indices that nobody has looked at
    "rows": lambda x: x[torch.arange(4) % 3],
    "the last of each": lambda x: x.t()[torch.arange(5), torch.arange(5) % 2],
    "counted from the end": lambda x: x[-1 - torch.arange(3)],
    "index_select": lambda x: x.index_select(0, torch.arange(4)),
    "a column written": lambda x: x.clone().index_fill_(0, torch.arange(2), 3.0),
    "rows put": lambda x: x.index_put((torch.arange(2),), torch.ones(5)),
    "linspace": lambda x: torch.linspace(0, 1, len(x)),
    **{
        f"interpolate {mode}": lambda x, mode=mode: F.interpolate(
            x[None, None], size=(7, 7), mode=mode
        )
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
    },
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_into_another_size_is_no_new_program(name):
    compiled = []
    for rows in (8, 11, 13, 16, 18, 23, 31):
        x = torch.arange(5.0 * rows).reshape(rows, 5).sin()
        x.tolist()
        before = PROGRAMS.compiled
        INDEXED[name](x).tolist()
        compiled.append(PROGRAMS.compiled - before)
    assert not any(compiled[3:]), compiled
