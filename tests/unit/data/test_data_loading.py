"""Datasets, samplers and the loader."""

import numpy as np
import pytest

import rushlight as torch

data = torch.utils.data


class Squares(data.Dataset):
    def __getitem__(self, index):
        return torch.tensor(float(index)), index**2

    def __len__(self):
        return 7


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(5))

    def __len__(self):
        return 5


def shown(loader):
    return [batch.tolist() for batch in loader]


def test_batches_of_pairs():
    loader = data.DataLoader(Squares(), batch_size=3)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert batches[0][0].tolist() == [0, 1, 2] and batches[2][1].tolist() == [36]
    assert batches[0][1].dtype == torch.int64
    assert len(list(data.DataLoader(Squares(), batch_size=3, drop_last=True))) == 2


def test_shuffle_gives_each_sample_once_and_new_orders():
    generator = torch.Generator().manual_seed(1)
    loader = data.DataLoader(range(50), batch_size=50, shuffle=True, generator=generator)
    first, second = shown(loader)[0], shown(loader)[0]
    assert sorted(first) == list(range(50)) and first != second
    generator.manual_seed(1)
    assert shown(loader)[0] == first


def test_loader_without_batches_converts():
    loader = data.DataLoader([np.float32(1), {"x": np.array([2])}], batch_size=None)
    first, second = loader
    assert first.item() == 1 and second["x"].tolist() == [2] and len(loader) == 2


def test_iterable_dataset():
    assert shown(data.DataLoader(Stream(), batch_size=2)) == [[0, 1], [2, 3], [4]]
    loader = data.DataLoader(Stream(), batch_size=2, drop_last=True)
    assert shown(loader) == [[0, 1], [2, 3]] and len(loader) == 2
    assert list(data.DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]
    assert list(Stream() + Stream()) == [0, 1, 2, 3, 4] * 2


def test_batch_sampler_and_collate_fn():
    loader = data.DataLoader("abc", batch_sampler=[[2, 0], [1]], collate_fn="".join)
    assert list(loader) == ["ca", "b"] and len(loader) == 2
    assert list(data.DataLoader("abc", sampler=[1, 1], batch_size=None)) == ["b", "b"]


def test_what_the_samplers_were_made_of_stays():
    with pytest.raises(ValueError, match="batch_size attribute should not be set after"):
        data.DataLoader([1]).batch_size = 3


def test_getitems_is_asked_once_per_batch():
    class Batched(data.Dataset):
        calls = 0

        def __getitems__(self, indices):
            self.calls += 1
            return [index * 10 for index in indices]

        def __len__(self):
            return 4

    source = Batched()
    assert shown(data.DataLoader(source, batch_size=2)) == [[0, 10], [20, 30]]
    assert source.calls == 2
    assert shown(data.DataLoader(data.Subset(source, [3, 1]), batch_size=2)) == [[30, 10]]
    stack = data.StackDataset(a=source, b=[1, 2, 3, 4])
    assert stack.__getitems__([0, 2]) == [{"a": 0, "b": 1}, {"a": 20, "b": 3}]


def test_dataset_combinations():
    tensors = data.TensorDataset(torch.arange(3), torch.arange(3) * 2)
    assert len(tensors) == 3 and [t.item() for t in tensors[2]] == [2, 4]
    joined = data.ConcatDataset(["ab", "c"])
    assert len(joined) == 3 and joined[-1] == "c" and joined[1] == "b"
    assert len(Squares() + Squares()) == 14
    assert data.StackDataset("ab", [1, 2])[1] == ("b", 2)


def test_random_split():
    generator = torch.Generator().manual_seed(0)
    parts = data.random_split(range(10), [0.25, 0.25, 0.5], generator)
    assert [len(part) for part in parts] == [3, 2, 5]
    assert sorted(index for part in parts for index in part.indices) == list(range(10))
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])


def test_samplers():
    generator = torch.Generator().manual_seed(0)
    drawn = list(data.RandomSampler(range(3), True, 70, generator))
    assert len(drawn) == 70 and set(drawn) == {0, 1, 2}
    longer = list(data.RandomSampler(range(3), num_samples=7, generator=generator))
    assert sorted(longer[:3]) == [0, 1, 2] and len(longer) == 7
    assert set(data.WeightedRandomSampler([0.0, 1.0, 1.0], 50)) == {1, 2}
    once = data.WeightedRandomSampler([1.0, 1.0], 2, replacement=False)
    assert sorted(once) == [0, 1]
    batches = data.BatchSampler(data.SequentialSampler(range(5)), 2, True)
    assert list(batches) == [[0, 1], [2, 3]] and len(batches) == 2


def test_collate_enters_containers():
    got = data.default_collate([{"a": (1, "x"), "b": np.ones(2)}, {"a": (2, "y"), "b": np.ones(2)}])
    assert got["a"][0].tolist() == [1, 2] and got["a"][1] == ("x", "y")
    assert got["b"].shape == (2, 2)
    assert data.default_collate([1.5, 2.5]).dtype == torch.float64
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        data.default_collate([object()])
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1], [1, 2]])
