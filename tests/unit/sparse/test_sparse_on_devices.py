"""A sparse tensor is where its values are, its indices with them, and so is what is made of it."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.compiler.target import Missing

HERE = not isinstance(find_backend("opencl").find(), Missing)
pytestmark = pytest.mark.skipif(not HERE, reason="no OpenCL device here")
INDEX = torch.tensor([[0, 1, 1, 1], [2, 0, 2, 2]])


def example(place: str) -> torch.Tensor:
    """With (1, 2) twice."""
    return torch.sparse_coo_tensor(INDEX, torch.tensor([3.0, 4, 5, 6]), (2, 3), device=place)


def ones(place: str, *shape: int) -> torch.Tensor:
    return torch.ones(shape, device=place)


def at(place: str, *numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, device=place)


MADE = {
    "itself": lambda x, p: x, "coalesce": lambda x, p: x.coalesce(), "t": lambda x, p: x.t(),
    "to_dense": lambda x, p: x.to_dense(), "add": lambda x, p: x + x, "mul": lambda x, p: x * 2,
    "matmul": lambda x, p: x @ ones(p, 3, 2), "sum": lambda x, p: torch.sparse.sum(x, 0),
    "softmax": lambda x, p: torch.sparse.softmax(x, 1), "cat": lambda x, p: torch.cat([x, x]),
    "bmm": lambda x, p: torch.bmm(torch.stack([x, x]), ones(p, 2, 3, 1)),
    "index_select": lambda x, p: x.index_select(0, at(p, 1)),
    "csr": lambda x, p: x.to_sparse_csr(), "csc": lambda x, p: x.to_sparse_csc().to_sparse_coo(),
    "bsr": lambda x, p: torch.eye(4, device=p).to_sparse_bsr((2, 2)).to_sparse_coo(),
    "of nothing": lambda x, p: torch.sparse_coo_tensor((2, 3), device=p),
    "zero_": lambda x, p: x.zero_(), "mask": lambda x, p: ones(p, 2, 3).sparse_mask(x.coalesce()),
    "of values": lambda x, p: torch.sparse_coo_tensor(INDEX, ones(p, 4), (2, 3)),
    "of rows": lambda x, p: torch.sparse_csr_tensor([0, 1], [1], ones(p, 1), (1, 3)),
    "moved": lambda x, p: example("cpu").to(p), "to dense": lambda x, p: ones(p, 2, 3) + x,
    "spdiags": lambda x, p: torch.sparse.spdiags(ones(p, 1, 3), torch.tensor([0]), (3, 3)),
}  # fmt: skip


def assert_there(x: torch.Tensor, place: str) -> list:
    """Its values as a list."""
    sparse = hasattr(x, "vals")
    for part in [x, x.vals, *x.index] if sparse else [x]:
        assert part.device == torch.device(place)
    return (x.to_dense() if sparse else x).tolist()


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_a_sparse_tensor_is_where_it_is(name: str) -> None:
    make = MADE[name]
    here, there = (assert_there(make(example(p), p), p) for p in ("cpu", "opencl"))
    assert here == there


def test_a_sparse_tensor_comes_back() -> None:
    found = example("opencl").cpu()
    assert_there(found, "cpu")


def test_sparse_gradients_are_on_the_device() -> None:
    results = []
    for place in ("cpu", "opencl"):
        table = torch.nn.Embedding(5, 2, sparse=True)
        torch.nn.init.ones_(table.weight)
        table.to(place)
        table(at(place, 1, 1, 3)).sum().backward()
        w = torch.ones(3, device=place, requires_grad=True)
        torch.gather(w, 0, at(place, 1, 1), sparse_grad=True).sum().backward()
        found = [assert_there(table.weight.grad, place), assert_there(w.grad, place)]
        for optimizer in (torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad):
            optimizer(table.parameters(), lr=0.5).step()
        results.append([*found, table.weight.tolist()])
    assert results[0] == results[1]
