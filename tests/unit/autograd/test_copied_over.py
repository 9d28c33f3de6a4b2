"""A value with history copied over another: zeros go to what was there, as in PyTorch."""

import pytest

import rushlight as torch

WAYS = {
    "copy_": lambda y, v: y.copy_(v),
    "y[...]": lambda y, v: y.__setitem__(..., v),
    "y[:]": lambda y, v: y.__setitem__(slice(None), v),
    "a view of all": lambda y, v: y.view(3).copy_(v),
    "another dtype": lambda y, v: y.copy_(v.double()),
    "broadcast": lambda y, v: y.copy_(v.sum()),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_there_gets_zeros(way):
    x = torch.ones(3, requires_grad=True)
    v = torch.full((3,), 2.0, requires_grad=True)
    y = x * 2
    WAYS[way](y, v)
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    assert v.grad.tolist() == ([3, 3, 3] if way == "broadcast" else [1, 1, 1])


def test_the_tensor_itself_comes_back():
    y, v = torch.ones(3, requires_grad=True) * 2, torch.ones(3, requires_grad=True)
    assert y.copy_(v) is y
    part = y[...]
    assert part.copy_(v) is part
    assert y.grad_fn.name() == "CopyBackwards"


def test_without_history_before_nothing_is_added():
    y, v = torch.zeros(3), torch.ones(3, requires_grad=True)
    y.copy_(v).square().sum().backward()
    assert v.grad.tolist() == [2, 2, 2]


def test_second_gradients():
    def run(x, v):
        y = x * 2
        y.copy_(v * v)
        return y * y * x

    values = [torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(run, values)
    assert torch.autograd.gradgradcheck(run, values)
