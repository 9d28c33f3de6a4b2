"""Who is looked at by a flush: every holder of a value, but memory that others see."""

import gc
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.dtypes import float32
from rushlight.engine import live
from rushlight.engine.live import Ref, flushed_refs, live_refs, set_apart
from rushlight.ir.node import buffer_node


def ref():
    return Ref(buffer_node(None, (), float32))


def test_holders_that_are_set_apart_are_live_but_not_flushed():
    first, second, third = ref(), ref(), ref()
    set_apart(second)
    set_apart(second)
    flushed = flushed_refs()
    assert first in flushed and third in flushed and second not in flushed
    everyone = live_refs()
    assert [r for r in everyone if r in (first, second, third)] == [first, second, third]


def test_memory_of_numpy_is_set_apart_and_works_on():
    array = np.ones(4, np.float32)
    tensor = torch.from_numpy(array)
    assert tensor._storage in live_refs() and tensor._storage not in flushed_refs()
    doubled = tensor * 2
    array[0] = 5  # after the call was recorded
    tensor.add_(1)
    assert doubled.tolist() == [2] * 4 and array.tolist() == [6, 2, 2, 2]
    mine = torch.zeros(3) + 1
    seen = mine.numpy()
    assert mine._storage not in flushed_refs()
    mine.mul_(3)
    assert seen.tolist() == [3] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_a_snapshot_is_a_copy(dtype, shape):
    array = np.ones(shape, dtype)
    tensor = torch.from_numpy(array)
    copy = tensor.clone()
    tensor.zero_()
    assert copy.tolist() == np.ones(shape, dtype).tolist() and not array.any()


def test_dead_holders_are_forgotten(monkeypatch):
    monkeypatch.setattr(live, "_SWEEP_AT", 50)
    gone = weakref.ref(ref())
    for _ in range(300):
        set_apart(ref())
        ref()
    gc.collect()
    assert gone() is None
    flushed_refs()
    alive = len(live_refs())
    assert len(live._LIVE) + len(live._APART) <= 2 * alive + 400


@pytest.mark.parametrize("kind", ["list", "numpy", "view", "pending"])
@pytest.mark.parametrize("bad", [4, -1, -100, 2**40])
def test_targets_are_checked_where_they_are(kind, bad):
    def target(value):
        values = np.array([0, 3, value], np.int64)
        return {
            "list": lambda: torch.tensor(values.tolist()),
            "numpy": lambda: torch.from_numpy(values),
            "view": lambda: torch.from_numpy(np.repeat(values, 2))[::2],
            "pending": lambda: torch.tensor(values.tolist()) + 0,
        }[kind]()

    scores = torch.arange(12.0).reshape(3, 4)
    assert torch.nn.functional.cross_entropy(scores, target(1)).item() > 0
    if bad == -100:  # ignored
        assert torch.nn.functional.cross_entropy(scores, target(bad)).item() > 0
        return
    with pytest.raises(IndexError, match=f"Target {bad} is out of bounds|out of range"):
        torch.nn.functional.cross_entropy(scores, target(bad)).item()
