"""Who is looked at by a flush, and who holds what."""

import gc
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.dtypes import float32
from rushlight.engine import live, realize
from rushlight.engine.live import Ref, is_held, live_refs
from rushlight.ir.node import buffer_node
from rushlight.ops import abs_, mul, neg


def ref(node=None):
    return Ref(buffer_node(None, (), float32) if node is None else node)


def test_a_node_is_held_while_a_live_ref_has_it():
    node = buffer_node(None, (), float32)
    assert not is_held(node)
    first, second = ref(node), ref(node)
    assert is_held(node)
    del first
    assert is_held(node)
    second.hold(buffer_node(None, (), float32))
    assert not is_held(node) and is_held(second.node)


def test_a_flush_looks_at_what_was_recorded_since(monkeypatch):
    kept = [torch.ones(3) + i for i in range(50)]
    kept[0].tolist()
    one = torch.ones(3) + 100
    looked = []
    ask = live.waiting_refs
    monkeypatch.setattr(realize, "waiting_refs", lambda: looked.append(ask()) or looked[-1])
    assert one.tolist() == [101.0] * 3
    assert sum(len(refs) for _, refs in looked) <= 2
    assert not live.WAITING


def test_what_is_computed_again_keeps_its_leaves():
    x = torch.ones(2, 2, requires_grad=True)
    weight = torch.arange(4.0).reshape(2, 2) * 1
    weight.tolist()
    out = (x * weight.data.t()).sum()  # the view is saved as a node that is never computed
    assert out.item() == 6.0
    (saved,) = [r for r in live_refs() if r.saved and not r.node.leaf]
    assert is_held(saved.node.src[0])
    weight.mul_(5)  # must not write over what the saved value is made of
    assert weight.tolist() == [[0.0, 5.0], [10.0, 15.0]]
    out.backward()
    assert x.grad.tolist() == [[0.0, 2.0], [1.0, 3.0]]


def test_what_is_computed_again_keeps_what_became_a_leaf_meanwhile():
    x = (torch.arange(64.0) + 0).requires_grad_(False)
    x.tolist()
    between = neg.node(x._value())
    saved = Ref(abs_.node(between), saved=True)
    one = torch.ones(2) + 1
    one.tolist()  # a flush that does not compute what is saved
    assert not saved.node.leaf
    realize.flush((between,))
    assert between.leaf == "buffer" and is_held(between)
    used = Ref(mul.node(between, between))
    del between
    realize.flush()
    assert used.node.leaf == "buffer"
    assert realize.read(saved.node).tolist() == list(range(64))


def test_memory_of_numpy_works_on():
    array = np.ones(4, np.float32)
    tensor = torch.from_numpy(array)
    assert tensor._storage in live_refs()
    doubled = tensor * 2
    array[0] = 5  # after the call was recorded
    tensor.add_(1)
    assert doubled.tolist() == [2] * 4 and array.tolist() == [6, 2, 2, 2]
    mine = torch.zeros(3) + 1
    seen = mine.numpy()
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
        ref()
    gc.collect()
    assert gone() is None
    live._sweep()
    assert len(live._LIVE) <= 2 * len(live_refs()) + 100


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
