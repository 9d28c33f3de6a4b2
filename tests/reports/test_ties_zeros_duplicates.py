"""Equal largest values share a gradient, zeros keep theirs in products, repeated indices add up."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

X = [2.0, 5.0, 5.0, 1.0, 5.0]


def grad(function, values):
    x = torch.tensor(values, requires_grad=True)
    function(x).sum().backward()
    return x.grad.numpy()


SHARED = {
    "amax": lambda x: x.amax(0),
    "max": lambda x: x.max(),
    "amin": lambda x: -(-x).amin(0),
    "inf norm": lambda x: torch.linalg.vector_norm(x, float("inf")),
    "index_reduce": lambda x: torch.full((1,), -9.0).index_reduce(
        0, torch.zeros(5, dtype=torch.long), x, "amax"
    ),
    "scatter_reduce amin": lambda x: (
        -torch.full((1,), 9.0).scatter_reduce(0, torch.zeros(5, dtype=torch.long), -x, "amin")
    ),
    "aminmax": lambda x: torch.aminmax(x).max,
}
ONE = {
    "max(dim)": lambda x: x.max(0).values,
    "cummax": lambda x: x.cummax(0).values[-1],
    "max_pool1d": lambda x: F.max_pool1d(x[None, None], 5),
    "topk": lambda x: x.topk(1).values,
    "sort": lambda x: x.sort(descending=True).values[0],
}


@pytest.mark.parametrize("name", SHARED)
def test_equal_largest_values_share_the_gradient(name):
    np.testing.assert_allclose(grad(SHARED[name], X), [0, 1 / 3, 1 / 3, 0, 1 / 3], rtol=1e-6)


@pytest.mark.parametrize("name", ONE)
def test_what_gives_an_index_gives_the_gradient_to_one(name):
    found = grad(ONE[name], X)
    assert sorted(found.tolist()) == [0, 0, 0, 0, 1] and X[int(found.argmax())] == 5.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, 3.0, 4.0], [12, 0, 0]), ([0.0, 0.0, 4.0], [0, 0, 0]), ([2.0, 3.0, 4.0], [12, 8, 6])],
)
@pytest.mark.parametrize("name", ["prod", "prod(dim)", "prod(keepdim)", "index_reduce", "scatter"])
def test_products_with_zeros(name, values, expected):
    ones, index = torch.ones(1), torch.zeros(3, dtype=torch.long)
    functions = {
        "prod": lambda x: x.prod(),
        "prod(dim)": lambda x: x.prod(0),
        "prod(keepdim)": lambda x: x[None].prod(1, keepdim=True),
        "index_reduce": lambda x: ones.index_reduce(0, index, x, "prod"),
        "scatter": lambda x: ones.scatter_reduce(0, index, x, "prod"),
    }
    np.testing.assert_allclose(grad(functions[name], values), expected, rtol=1e-6)


INDEX = [3, 0, 3, 3, 1]
READS = {
    "x[i]": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "take": lambda x, i: x.take(i),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i, 0),
    "embedding": lambda x, i: F.embedding(i, x[:, None])[:, 0],
}
WRITES = {
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i, v),
    "index_put": lambda x, i, v: x.index_put((i,), v, accumulate=True),
    "put": lambda x, i, v: x.put(i, v, accumulate=True),
    "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i, v, "sum"),
    "index_reduce": lambda x, i, v: x.index_reduce(0, i, v, "mean") * 0 + x.index_add(0, i, v),
}
WEIGHTS = [1.0, 10.0, 100.0, 1000.0, 10000.0]


@pytest.mark.parametrize("name", READS)
def test_gradients_of_repeated_reads_add_up(name):
    i, w = torch.tensor(INDEX), torch.tensor(WEIGHTS)
    found = grad(lambda x: READS[name](x, i) * w, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(found, [10, 10000, 0, 1101])


@pytest.mark.parametrize("name", WRITES)
def test_repeated_writes_add_up_and_every_value_gets_its_gradient(name):
    i = torch.tensor(INDEX)
    x, v = torch.zeros(4, requires_grad=True), torch.tensor(WEIGHTS, requires_grad=True)
    out = WRITES[name](x, i, v)
    (out * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), [10, 10000, 0, 1101])
    np.testing.assert_allclose(v.grad.numpy(), [4, 1, 4, 4, 2])
    np.testing.assert_allclose(x.grad.numpy(), [1, 2, 3, 4])


@pytest.mark.parametrize(
    "name", ["index_add", "index_select", "gather", "scatter_add", "embedding"]
)
@pytest.mark.parametrize("bad", [-1, 4])
def test_indices_that_do_not_exist_are_refused(name, bad):
    x, i, v = torch.zeros(4), torch.tensor([0, bad]), torch.ones(2)
    with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
        found = READS[name](x, i) if name in READS else WRITES[name](x, i, v)
        found.tolist()
    assert x.tolist() == [0, 0, 0, 0]
