"""collate with functions by class, and the iterators of loaders."""

import numpy as np

import rushlight as torch
from rushlight.utils.data.collate import collate, default_collate, default_collate_fn_map
from rushlight.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)


class Box:
    def __init__(self, value):
        self.value = value


def boxes(batch, *, collate_fn_map=None):
    return [box.value for box in batch]


def test_own_classes():
    assert collate([{"b": Box(1)}, {"b": Box(2)}], collate_fn_map={Box: boxes}) == {"b": [1, 2]}
    default_collate_fn_map[Box] = boxes
    try:
        found = default_collate([(Box(1), 2.0), (Box(3), 4.0)])
        assert found[0] == [1, 3] and found[1].tolist() == [2.0, 4.0]
    finally:
        del default_collate_fn_map[Box]


def test_a_subclass_goes_to_the_function_of_its_base():
    class Small(Box):
        pass

    assert collate([Small(1)], collate_fn_map={Box: boxes}) == [1]


def test_iterators_know_their_length_and_class():
    loader = torch.utils.data.DataLoader(np.arange(5), batch_size=2)
    batches = iter(loader)
    assert len(batches) == 3 and isinstance(batches, _SingleProcessDataLoaderIter)
    assert not isinstance(batches, _MultiProcessingDataLoaderIter)
    assert isinstance(batches, _BaseDataLoaderIter)
    assert [b.tolist() for b in batches] == [[0, 1], [2, 3], [4]]
