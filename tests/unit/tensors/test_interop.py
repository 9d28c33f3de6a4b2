"""Copies, pickles, and other ways out of and into a tensor."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import rushlight as torch
from rushlight.runtime.buffer import memory_allocated


def test_pickle_and_deepcopy():
    x = torch.tensor([[1.5, 2.0]], requires_grad=True)
    x.sum().backward()
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert made.tolist() == x.tolist() and made.requires_grad and made.dtype is x.dtype
    assert copy.deepcopy(x).grad.tolist() == [[1, 1]]
    y = pickle.loads(pickle.dumps(torch.ones(3, dtype=torch.bfloat16)[1:]))
    assert y.tolist() == [1, 1] and y.dtype is torch.bfloat16


def test_clone_and_detach():
    x = torch.zeros(3)
    c, d = x.clone(), x.detach()
    x[0] = 1
    assert c.tolist() == [0, 0, 0] and d.tolist() == [1, 0, 0]
    c[1] = 5
    assert x.tolist() == [1, 0, 0]


def test_number_protocols():
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert int(torch.tensor(3.7)) == 3 and f"{torch.tensor(2.5):.2f}" == "2.50"
    assert 2 in torch.tensor([1, 2]) and 5 not in torch.tensor([1, 2])
    assert np.asarray(torch.ones(2)).sum() == 2 and (np.float32(2) * torch.ones(2)).tolist() == [
        2,
        2,
    ]


def test_set_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert (
            torch.tensor([1.0]).dtype is torch.float64
            and (torch.tensor([1]) / 2).dtype is torch.float64
        )
    finally:
        torch.set_default_dtype(torch.float32)


def test_bfloat16_has_no_numpy():
    with pytest.raises(TypeError, match="BFloat16"):
        torch.ones(1, dtype=torch.bfloat16).numpy()


def test_storage_of_constants_is_never_computed():
    """A number leaf is shared by the whole program: a flush must not turn it into memory."""
    x = torch.zeros(())
    y = torch.zeros(())
    x.add_(1)
    assert x.item() == 1 and y.item() == 0
    x.zero_()
    torch.flush()
    x.add_(2)
    assert x.item() == 2 and torch.zeros(()).item() == 0


def test_numpy_of_a_lonely_value_is_its_memory():
    x = torch.randn(300_000) * 2
    torch.flush()
    before = memory_allocated()
    array = x.numpy()
    assert memory_allocated() == before
    array[0] = 7
    assert x[0] == 7


@pytest.mark.parametrize("holder", ["clone", "graph", "view", "later"])
def test_numpy_of_a_value_that_others_hold_leaves_theirs(holder):
    w = torch.randn(4)
    y = w * 2
    leaf = torch.ones(4, requires_grad=True)
    held = {
        "clone": lambda: y.clone(),
        "graph": lambda: leaf * y.detach(),
        "view": lambda: y[1:] + 0,
        "later": lambda: y * 3,
    }[holder]()
    want = w.tolist()
    y.numpy()[:] = 100
    if holder == "graph":
        held.sum().backward()
        assert leaf.grad.tolist() == [2 * v for v in want]
    factor = {"later": 6}.get(holder, 2)
    expected = [factor * v for v in want[1:] if holder == "view"] or [factor * v for v in want]
    assert torch.allclose(held.detach(), torch.tensor(expected))
    assert y.tolist() == [100.0] * 4


def test_what_requires_gradients_is_shared_where_none_is_recorded() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3))
    for share in (lambda: weight.numpy(), lambda: np.asarray(weight)):
        with pytest.raises(RuntimeError, match="numpy\\(\\) on Tensor that requires grad"):
            share()
        with torch.no_grad():
            share()[0, 0] += 1
    assert weight.tolist() == [[3, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("recording", [True, False])
def test_no_gradient_goes_through_dlpack_or_a_new_size(recording: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3))
    with torch.set_grad_enabled(recording):
        for share in (weight.__dlpack__, lambda: torch.from_dlpack(weight)):
            with pytest.raises(BufferError, match="tensors that require gradient"):
                share()
        with pytest.raises(BufferError, match="conjugate bit"):
            torch.from_dlpack(torch.ones(2, dtype=torch.complex64).conj())
        for resize in (lambda: weight.resize_(2, 3), lambda: weight.resize_as_(weight)):
            with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
                resize()
