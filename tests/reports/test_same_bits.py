"""The same bits in every run, for every number of threads; rows do not depend on their batch."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F

torch.manual_seed(0)
ROWS, INDEX = torch.randn(4096, 24), torch.randint(0, 7, (4096,))
IMAGES = torch.randn(6, 4, 20, 20)


def grad_of(function, *shape):
    x = torch.ones(shape, requires_grad=True)
    function(x).square().sum().backward()
    return x.grad


RUNS = {
    "index_reduce": lambda: torch.zeros(7, 24).index_reduce(0, INDEX, ROWS, "mean"),
    "scatter_reduce": lambda: torch.zeros(7).scatter_reduce(0, INDEX, ROWS[:, 0], "sum"),
    "bincount": lambda: torch.bincount(INDEX, ROWS[:, 0]),
    "histc": lambda: torch.histc(ROWS, 20),
    "cumsum": lambda: ROWS.flatten().cumsum(0),
    "std": lambda: ROWS.std(0),
    "norm": lambda: ROWS.norm(),
    "logsumexp": lambda: ROWS.logsumexp(0),
    "embedding_bag grad": lambda: grad_of(
        lambda w: F.embedding_bag(INDEX.reshape(-1, 8), w, mode="sum"), 7, 24
    ),
    "conv grad": lambda: grad_of(lambda w: F.conv2d(IMAGES, w, stride=2), 5, 4, 3, 3),
    "depthwise grad": lambda: grad_of(lambda w: F.conv2d(IMAGES, w, groups=4), 4, 1, 3, 3),
    "layer_norm grad": lambda: grad_of(lambda w: F.layer_norm(ROWS, (24,), w), 24),
    "batch_norm": lambda: F.batch_norm(IMAGES, None, None, training=True),
    "einsum": lambda: torch.einsum("ri,rj->ij", ROWS, ROWS),
    "sort": lambda: ROWS.sort(0).indices,
    "cross_entropy": lambda: F.cross_entropy(ROWS[:, :7], INDEX),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs_and_threads_change_no_bit(name):
    threads, first = torch.get_num_threads(), RUNS[name]().clone()
    try:
        for count in (1, 2, 3, 3):
            torch.set_num_threads(count)
            assert torch.equal(RUNS[name](), first), f"{count} threads"
    finally:
        torch.set_num_threads(threads)


BATCHED = {
    "group_norm": lambda x: F.group_norm(x, 2),
    "conv2d": lambda x: F.conv2d(x, torch.ones(3, 4, 3, 3)),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "mean": lambda x: x.mean((1, 2, 3)),
    "interpolate": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "linear": lambda x: F.linear(x, torch.ones(5, 20)),
    "softmax": lambda x: x.flatten(1).softmax(1),
    "cumsum": lambda x: x.cumsum(-1),
    "logsumexp": lambda x: x.logsumexp((1, 2)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_an_image_is_the_same_alone_and_in_a_batch(name):
    whole = BATCHED[name](IMAGES)
    for count in (1, 2, 5):
        assert torch.equal(BATCHED[name](IMAGES[:count]), whole[:count]), count


TURNED = {
    "sum": lambda x, dim: x.sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "amax": lambda x, dim: x.amax(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "var": lambda x, dim: x.var(dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "sort": lambda x, dim: x.round().sort(dim, stable=True).indices,
    "topk": lambda x, dim: x.topk(2, dim).values,
}


@pytest.mark.parametrize("shape", [(130, 6, 70), (2, 4200, 3)])
@pytest.mark.parametrize("dims", [(2, 0, 1), (1, 2, 0), (2, 1, 0)])
@pytest.mark.parametrize("name", TURNED)
def test_a_turned_tensor_is_reduced_as_its_copy(name, dims, shape):
    x = torch.randn(*shape).permute(dims)
    copy = x.contiguous()
    for dim in range(3):
        assert torch.equal(TURNED[name](x, dim), TURNED[name](copy, dim)), dim
