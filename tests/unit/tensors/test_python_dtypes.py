"""Python's types as dtypes."""

import pytest

import rushlight as torch

TYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
X = torch.ones(2)
MAKERS = {
    "tensor": lambda d: torch.tensor([1, 2], dtype=d),
    "as_tensor": lambda d: torch.as_tensor(X, d),
    "zeros": lambda d: torch.zeros(2, dtype=d),
    "full": lambda d: torch.full((2,), 1, dtype=d),
    "ones_like": lambda d: torch.ones_like(X, dtype=d),
    "new_zeros": lambda d: X.new_zeros(2, dtype=d),
    "empty": lambda d: torch.empty(2, dtype=d),
    "eye": lambda d: torch.eye(2, dtype=d),
    "to": lambda d: X.to(d),
    "to by name": lambda d: X.to(dtype=d),
    "to with device": lambda d: X.to("cpu", d),
    "sum": lambda d: X.sum(dtype=d),
    "torch.sum": lambda d: torch.sum(X, dtype=d),
    "prod": lambda d: torch.prod(X, dtype=d),
    "scalar_tensor": lambda d: torch.scalar_tensor(1, dtype=d),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_a_python_type_names_its_dtype(name, kind):
    assert MAKERS[name](kind).dtype is TYPES[kind]


def test_modules_and_reductions():
    assert torch.nn.Linear(2, 2, dtype=float).weight.dtype is torch.float64
    assert torch.nn.Linear(2, 2).to(float).weight.dtype is torch.float64
    assert torch.softmax(X, 0, dtype=float).dtype is torch.float64
    assert X.cumsum(0, dtype=int).dtype is torch.int64
    with pytest.raises(TypeError):
        X.to(str)


def test_foreach_maximum_in_place():
    a = [torch.tensor([1.0, 4.0])]
    torch._foreach_maximum_(a, [torch.tensor([3.0, 2.0])])
    assert a[0].tolist() == [3.0, 4.0]
