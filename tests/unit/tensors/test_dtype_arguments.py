"""A dtype that is no dtype: PyTorch's type of error and the name of the argument."""

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as torch

X = torch.ones(3)
CALLS: list[Callable[[Any], Any]] = [
    lambda d: torch.zeros(3, dtype=d),
    lambda d: torch.tensor([1], dtype=d),
    lambda d: torch.arange(3, dtype=d),
    lambda d: torch.eye(3, dtype=d),
    lambda d: torch.zeros_like(X, dtype=d),
    lambda d: X.sum(dtype=d),
    lambda d: X.new_zeros(3, dtype=d),
    lambda d: torch.nn.Linear(2, 2, dtype=d),
    lambda d: torch.nn.Linear(2, 2).to(dtype=d),
]


@pytest.mark.parametrize("call", CALLS)
def test_text_is_no_dtype(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not str"):
        call("float32")


def test_python_types_convert_modules() -> None:
    assert torch.nn.Linear(2, 2).to(dtype=float).weight.dtype is torch.float64
    assert torch.nn.Linear(2, 2).to(float).weight.dtype is torch.float64


def test_the_name_of_a_type_is_no_dtype() -> None:
    assert X.type("torch.DoubleTensor").dtype is torch.float64
