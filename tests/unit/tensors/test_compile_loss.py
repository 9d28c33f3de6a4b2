"""A compiled step may return its loss: it is a value whose backward has run."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_a_returned_loss_is_replayed_and_spent():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(5, 4)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(step)
    losses = [compiled() for _ in range(8)]
    assert compiled.replays >= 4
    assert all(loss.requires_grad and loss.grad_fn.name() == "SumBackward0" for loss in losses)
    values = [loss.item() for loss in losses]
    assert values == sorted(values, reverse=True)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        losses[-1].backward()


def test_a_result_that_is_differentiated_outside_waits():
    model = torch.nn.Linear(4, 3)
    compiled = torch.compile(lambda x: model(x).square().sum())
    for _ in range(4):
        model.zero_grad()
        loss = compiled(torch.ones(2, 4))
        assert not loss._value().leaf
        loss.backward()
    assert model.weight.grad is not None and compiled.replays == 2
