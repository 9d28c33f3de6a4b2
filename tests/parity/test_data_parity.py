"""Data loading against PyTorch: equal batches and, with equal generators, equal orders."""

import collections
import inspect

import numpy as np
import pytest

real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402
from tests.parity.common import assert_same_error  # noqa: E402

same_generator = pytest.mark.skipif(
    torch.Tensor is not real.Tensor, reason="equal draws need PyTorch's own generator"
)
Point = collections.namedtuple("Point", "x y")


def plain(value):
    """Turn tensors into lists that show their dtype."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return value


BATCHES = [
    [1, 2],
    [1.5, 2.5],
    [True, False],
    ["a", "b"],
    [b"a", b"b"],
    [(1, 2.0), (3, 4.0)],
    [[1, "x"], [2, "y"]],
    [{"a": 1, "b": [1.0]}, {"a": 2, "b": [2.0]}],
    [Point(1, 2.0), Point(3, 4.0)],
    [np.float32(1), np.float32(2)],
    [np.array([1, 2]), np.array([3, 4])],
    [np.int8(1), np.int8(2)],
    [np.bool_(True), np.bool_(False)],
]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_collate_and_convert_equal_pytorch(batch):
    own, other = torch.utils.data, real.utils.data
    assert plain(own.default_collate(batch)) == plain(other.default_collate(batch))
    assert plain(own.default_convert(batch)) == plain(other.default_convert(batch))


def endless(data):
    """Return an iterable dataset."""

    class Ones(data.IterableDataset):
        def __iter__(self):
            return iter(int, 1)

        def __repr__(self):
            return "Ones"

    return Ones()


BAD = [
    lambda t, d: d.default_collate([object()]),
    lambda t, d: d.default_collate([[1], [1, 2]]),
    lambda t, d: d.default_collate([np.array(["a"])]),
    lambda t, d: d.DataLoader([1], num_workers=-1),
    lambda t, d: d.DataLoader([1], timeout=-1),
    lambda t, d: d.DataLoader([1], prefetch_factor=2),
    lambda t, d: d.DataLoader([1], persistent_workers=True),
    lambda t, d: d.DataLoader([1], batch_size=0),
    lambda t, d: d.DataLoader([1], batch_size=None, drop_last=True),
    lambda t, d: d.DataLoader([1], shuffle=True, sampler=[0]),
    lambda t, d: d.DataLoader([1], batch_sampler=[[0]], batch_size=2),
    lambda t, d: d.DataLoader([1], multiprocessing_context="fork"),
    lambda t, d: d.DataLoader([], shuffle=True),
    lambda t, d: setattr(d.DataLoader([1]), "batch_size", 3),
    lambda t, d: d.DataLoader(endless(d), shuffle=True),
    lambda t, d: d.DataLoader(endless(d), sampler=[0]),
    lambda t, d: d.DataLoader(endless(d), batch_sampler=[[0]]),
    lambda t, d: d.TensorDataset(t.zeros(2), t.zeros(3)),
    lambda t, d: d.ConcatDataset([]),
    lambda t, d: d.ConcatDataset([[1]])[-2],
    lambda t, d: d.ConcatDataset([endless(d)]),
    lambda t, d: d.StackDataset(),
    lambda t, d: d.StackDataset([1], [1, 2]),
    lambda t, d: d.StackDataset([1], a=[1]),
    lambda t, d: d.random_split([1, 2], [3]),
    lambda t, d: d.random_split([1, 2], [1.5, -0.5]),
    lambda t, d: d.RandomSampler([1], replacement=1),
    lambda t, d: d.RandomSampler([1], num_samples=0),
    lambda t, d: d.WeightedRandomSampler([[1.0]], 1),
    lambda t, d: d.WeightedRandomSampler([1.0], 0),
    lambda t, d: d.WeightedRandomSampler([1.0], 1, replacement=1),
    lambda t, d: d.BatchSampler([0], 0, False),
    lambda t, d: d.BatchSampler([0], 1, 1),
    lambda t, d: d.Dataset()[0],
]


@pytest.mark.parametrize("use", BAD)
def test_errors_equal_pytorch(use):
    assert_same_error(lambda: use(torch, torch.utils.data), lambda: use(real, real.utils.data))


@same_generator
def test_orders_equal_pytorch():
    def run(data):
        out = []
        generator = real.Generator().manual_seed(5)
        loader = data.DataLoader(range(10), batch_size=3, shuffle=True, generator=generator)
        out += [[batch.tolist() for batch in loader] for _ in range(3)]
        real.manual_seed(3)
        out.append([batch.tolist() for batch in data.DataLoader(range(7), shuffle=True)])
        out.append(list(data.RandomSampler(range(50), True, 70, real.Generator().manual_seed(1))))
        out.append(list(data.RandomSampler(range(5), False, 12, real.Generator().manual_seed(1))))
        out.append(list(data.SubsetRandomSampler([4, 5, 6], real.Generator().manual_seed(1))))
        weighted = data.WeightedRandomSampler([0.1, 0.9], 9, generator=real.Generator())
        out.append(list(weighted))
        parts = data.random_split(range(11), [0.3, 0.7], real.Generator().manual_seed(2))
        out.append([list(part) for part in parts])
        return out

    assert run(torch.utils.data) == run(real.utils.data)


def test_signatures_equal_pytorch():
    for name in torch.utils.data.__all__:
        own, other = getattr(torch.utils.data, name), getattr(real.utils.data, name)
        if inspect.isclass(own) and "__init__" not in other.__dict__:
            continue
        own = own.__init__ if inspect.isclass(own) else own
        other = other.__init__ if inspect.isclass(other) else other
        assert [p for p in inspect.signature(own).parameters] == [
            p for p in inspect.signature(other).parameters
        ], name
