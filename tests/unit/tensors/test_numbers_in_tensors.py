"""Whole numbers that come as tensors without dims, as PyTorch takes them."""

import numpy as np
import pytest

import rushlight as torch

ONE = torch.tensor(1)
CALLS = {
    "diag": lambda a, one: torch.diag(a, one),
    "diagonal": lambda a, one: torch.diagonal(a, one),
    "diag_embed": lambda a, one: torch.diag_embed(a, one),
    "roll": lambda a, one: torch.roll(a, one, one),
    "roll of several": lambda a, one: torch.roll(a, (one, 2), (0, one)),
    "chunk": lambda a, one: torch.chunk(a, one + one)[1],
    "softmax": lambda a, one: torch.softmax(a, one),
    "narrow": lambda a, one: torch.narrow(a, 0, one, one),
    "tril": lambda a, one: torch.tril(a, one),
    "sum": lambda a, one: a.sum(one),
    "cumsum": lambda a, one: a.cumsum(one),
    "squeeze": lambda a, one: a[:, None].squeeze(one),
    "movedim": lambda a, one: a.movedim(one, 0),
    "unfold": lambda a, one: a.unfold(0, one + one, one),
    "split": lambda a, one: a.split(one)[2],
    "rot90": lambda a, one: a.rot90(one),
    "as_strided": lambda a, one: a.as_strided((2, one), (one, one), one),
    "reshape": lambda a, one: a.reshape(one, -1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_stands_for_its_number(name):
    a = torch.arange(12.0).reshape(3, 4)
    got, expected = CALLS[name](a, ONE), CALLS[name](a, 1)
    assert got.shape == expected.shape and all(type(size) is int for size in got.shape)
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_a_number_that_is_not_whole_is_refused():
    with pytest.raises(TypeError):
        torch.diagonal(torch.zeros(2, 2), 0.5)
