"""Memory that numpy looked at is the tensor's own again when nobody looks at it any more."""

import gc
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight.tensors import storage
from tests.unit.tensors.compile_checks import array

# Ways to look at a tensor's memory, and to read what is seen there.
WAYS = {
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "slice": lambda x: x.numpy()[1:],
    "transposed slice of a slice": lambda x: x.numpy()[1:][::-1].T,
    "reshaped": lambda x: x.numpy().reshape(-1, 1),
    "other dtype": lambda x: x.numpy().view(np.int32),
    "view of the tensor": lambda x: x[1:].numpy(),
    "strided view": lambda x: x[::2].numpy(),
    "memoryview": lambda x: memoryview(x.numpy()),
    "dlpack": lambda x: np.from_dlpack(x),
    "capsule": lambda x: x.__dlpack__(),
    "tensor over it": lambda x: torch.from_numpy(x.numpy()),
    "frombuffer": lambda x: np.frombuffer(x.numpy(), np.uint8),
    "iterator": lambda x: iter(x.numpy().reshape(2, 2)),
    "untyped storage": lambda x: x.untyped_storage().__dlpack__(),
}


def is_own(x):
    return x._storage.foreign is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_shared", [False, True])
def test_while_somebody_looks_memory_is_shared_afterwards_it_is_not(way, is_shared):
    x = torch.ones(4)
    other = x.clone() if is_shared else torch.zeros(4).copy_(x)
    look = WAYS[way](x)
    address = x._storage.foreign.ctypes.data
    assert (x * 2).sum().item() == 8 and not is_own(x)
    x.mul_(3)
    assert not is_own(x) and x._storage.foreign.ctypes.data == address
    assert x._storage.foreign.tolist() == x.tolist() == [3] * 4 and other.tolist() == [1] * 4
    del look
    gc.collect()
    assert (x * 2).sum().item() == 24 and is_own(x)
    x.add_(1)
    assert x.tolist() == [4] * 4
    assert x.numpy().tolist() == [4] * 4 and not is_own(x)  # and so on


def test_what_is_written_last_is_kept():
    x = torch.zeros(3)
    look = x.numpy()
    look[:] = [1, 2, 3]
    del look
    assert (x + 0).tolist() == [1, 2, 3] and is_own(x)


def test_values_that_wait_for_the_memory_are_those_of_their_time():
    x = torch.zeros(3)
    look = x.numpy()
    before = x + 1
    look[:] = 5
    del look
    after = x + 1
    assert is_own(x)
    x.fill_(9)
    assert before.tolist() == [1] * 3 and after.tolist() == [6] * 3 and x.tolist() == [9] * 3


def test_memory_of_others_is_never_taken():
    memory = np.ones(3, np.float32)
    x = torch.from_numpy(memory)
    assert (x + 1).tolist() == [2] * 3
    x.add_(1)
    assert memory.tolist() == [2] * 3 and not is_own(x)
    del memory
    assert (x + 1).tolist() == [3] * 3 and not is_own(x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_dtypes_and_shapes(dtype, shape):
    x = torch.ones(shape, dtype=dtype)
    x.numpy()
    assert (x + 0).tolist() == torch.ones(shape, dtype=dtype).tolist() and is_own(x)


def test_a_number_and_a_shared_value_get_memory_of_their_own():
    x, y = torch.tensor(2.0), torch.full((3,), 7.0)
    same = y.clone()
    for tensor in (x, y):
        tensor.numpy()
        (tensor + 0).tolist()
        assert is_own(tensor)
        tensor.mul_(2)
    assert x.item() == 4 and y.tolist() == [14] * 3 and same.tolist() == [7] * 3


HOLDERS = {
    "node": lambda storage: storage.node,
    "memory of the node": lambda storage: storage.node.buffer,
    "array": lambda storage: storage.foreign,
    "base of the array": lambda storage: storage.foreign.base,
}


@pytest.mark.parametrize("what", HOLDERS)
def test_whoever_holds_a_part_keeps_it_shared(what):
    x = torch.ones(3)
    x.numpy()
    held = HOLDERS[what](x._storage)
    assert not x._storage.reclaim() and not is_own(x)
    del held
    assert x._storage.reclaim() and is_own(x)


def training(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_compiled_step_whose_weights_numpy_looked_at_is_replayed(first, is_kept):
    """Before the first call and later, once or for good."""
    plain, model = network(), network()
    one, two = training(plain), torch.compile(training(model))
    x, y, kept = array(5, 4), array(5, 2, seed=1), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for turn in range(12):
            if turn == first:
                kept.append(model[0].weight.detach().numpy())
                if not is_kept:
                    kept.clear()
            assert one(x, y).item() == two(x, y).item()
            for look in kept:
                assert look.tolist() == plain[0].weight.tolist()
    for a, b in zip(plain.parameters(), model.parameters(), strict=True):
        assert a.tolist() == b.tolist()
    if not is_kept:
        assert two.replays >= 6 and is_own(model[0].weight) and not caught


def test_arguments_that_numpy_looked_at():
    fast = torch.compile(lambda x: x * 2)
    x = array(3)
    for _ in range(5):
        fast(x)
    before = fast.replays
    for turn in range(4):
        x.numpy()[:] = turn
        assert fast(x).tolist() == [2 * turn] * 3
    assert fast.replays == before + 4 and is_own(x)


def test_a_compiled_module_with_gradients_outside():
    plain, model = network(), network()
    fast = torch.compile(model)
    x = array(5, 4)
    for turn in range(10):
        if turn in (0, 5):
            model[2].weight.detach().numpy()
        plain(x).sum().backward()
        fast(x).sum().backward()
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            assert a.grad.tolist() == b.grad.tolist()
    assert fast._compiled.replays >= 6


def meanwhile(monkeypatch, act):
    """The next value that a storage asks for takes as long as another thread needs for this."""

    def slow(node):
        monkeypatch.setattr(storage, "value_of", value_of)
        act()
        return value_of(node)

    value_of = storage.value_of
    monkeypatch.setattr(storage, "value_of", slow)


@pytest.mark.parametrize("make", [lambda: torch.zeros(4), lambda: torch.zeros(4).add_(1)])
def test_two_threads_that_look_first_see_the_same_memory(monkeypatch, make):
    x, looks = make(), []
    meanwhile(monkeypatch, lambda: looks.append(x.numpy()))
    looks.append(x.numpy())
    assert len(looks) == 2 and np.shares_memory(*looks)
    x.add_(5)
    assert looks[0].tolist() == looks[1].tolist() == x.tolist()


def test_a_look_sees_what_another_thread_changed_while_it_waited(monkeypatch):
    x = torch.zeros(4)
    meanwhile(monkeypatch, lambda: x.add_(2))
    look = x.numpy()
    x.add_(1)
    assert look.tolist() == x.tolist() == [3] * 4


def test_memory_that_is_being_written_is_not_taken_back(monkeypatch):
    x, looks = torch.zeros(4), []
    looks.append(x.numpy())
    meanwhile(monkeypatch, lambda: (looks.clear(), x._storage.reclaim()))
    x.add_(2)
    assert x.tolist() == [2] * 4 and not looks


def test_a_view_reads_memory_that_another_thread_took_back_meanwhile():
    x = torch.arange(4.0)
    x.numpy()
    assert x._storage.reclaim()
    node = x._storage.foreign_view((2,), (2,), 1)
    assert storage.value_of(node).tolist() == [1, 3]
