"""torch.utils.benchmark, swap_tensors and other small names."""

import warnings

import pytest

import rushlight as torch
from rushlight.utils.benchmark import Compare, Measurement, Timer


def test_timer():
    found = Timer("x @ x", globals={"x": torch.ones(16, 16)}, label="product").timeit(5)
    assert found.number_per_run == 5 and found.median > 0 and "product" in repr(found)
    found = Timer("y = x + 1", setup="x = torch.ones(4)").blocked_autorange(min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01 and found.mean > 0


def test_the_statement_is_computed_inside_the_time():
    names = {"torch": torch, "x": torch.ones(4), "seen": []}
    Timer("seen.append(x + 1)", globals=names).timeit(1)
    assert names["seen"][-1]._storage.node.leaf == "buffer"


def test_compare():
    rows = [Measurement(1, [t], "sum", size, name) for size in ("8", "16")
            for name, t in (("mine", 2e-3), ("theirs", 4e-3))]  # fmt: skip
    text = str(Compare(rows))
    assert text.splitlines()[0] == "[sum]" and "2  |" in text and "Times are in ms." in text


def test_swap_tensors():
    a, b = torch.nn.Parameter(torch.zeros(1)), torch.ones(2)
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [1, 1] and isinstance(b, torch.nn.Parameter) and b.requires_grad
    (b * 3).sum().backward()
    assert b.grad.tolist() == [3]
    with pytest.raises(RuntimeError, match="history"):
        torch.utils.swap_tensors(a, b * 2)


def test_old_names():
    x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    assert isinstance(x, torch.autograd.Variable) and x.is_leaf and x.requires_grad
    with warnings.catch_warnings(record=True):
        assert torch.ones(4).resize(2, 2).shape == (2, 2)
    assert torch.get_device_module("cpu") is torch.cpu and torch.get_device_module() is torch.cpu
    with pytest.raises(RuntimeError, match="accelerator"):
        torch.Stream()
