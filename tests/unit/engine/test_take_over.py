"""A kernel that updates in place starts from what the input held, whoever reads its result."""

import math

import pytest

import rushlight as torch
from rushlight.base.config import config


def test_scatter_into_a_value_that_is_only_passed_on():
    for _ in range(3):
        x = torch.zeros(4, 3)
        x.tolist()
        x.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 3))
        x += 1
        assert x.tolist() == [[1.0] * 3, [3.0] * 3, [1.0] * 3, [1.0] * 3]


def computed(*shape):
    """A tensor in memory of its own, with 0, 1, 2, ... in it."""
    x = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) + 0
    x.tolist()
    return x


UPDATES = {
    "own rows": lambda x, i: x.__setitem__(slice(i, i + 2), x[i : i + 2] * 2),
    "in-place op": lambda x, i: x[i : i + 2].mul_(2),
    "strided": lambda x, i: x[i::3].add_(1),
    "columns": lambda x, i: x[:, i].sub_(1),
    "rows above": lambda x, i: x.__setitem__(slice(i + 1, i + 3), x[i : i + 2]),
    "turned": lambda x, i: x.__setitem__(slice(i, i + 4), torch.flip(x[i : i + 4], (0,))),
    "transposed": lambda x, i: x[i : i + 4, :4].copy_(x[i : i + 4, :4].t().clone()),
    "through an index": lambda x, i: x.__setitem__(slice(i, i + 2), x[torch.tensor([i + 1, i])]),
    "sum of all": lambda x, i: x[i : i + 2].add_(x.sum()),
    "index from itself": lambda x, i: x[i : i + 2].copy_(x[x[i : i + 2, 0].long() % 8]),
}
IN_PLACE = ("own rows", "in-place op", "strided", "columns")


@pytest.mark.parametrize("name", UPDATES)
def test_a_region_updated_from_the_tensor_itself(name):
    """As numpy-like eager code: each update sees the whole tensor as it was before."""
    x, expected = computed(8, 5), computed(8, 5).numpy().copy()
    for i in range(4):
        UPDATES[name](x, i)
        torch.flush()
        fresh = torch.tensor(expected)
        with config.override(backend="interp"):
            UPDATES[name](fresh, i)
            expected = fresh.numpy().copy()
        assert x.tolist() == expected.tolist()


@pytest.mark.parametrize("name", UPDATES)
def test_only_a_region_that_reads_itself_alone_is_updated_in_place(name):
    x = computed(8, 5)
    before = x.data_ptr()
    for i in (1, 2, 3):
        UPDATES[name](x, i)
        torch.flush()
    kept = x.data_ptr() == before
    assert kept == (name in IN_PLACE)
