"""Memory is written over only where one storage alone has it."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.dtypes import float32
from rushlight.ir.node import buffer_node
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.tensors.overwrite import Overwritten, put
from rushlight.tensors.storage import Storage


def storages(count):
    made = []
    for number in range(count):
        storage = Storage(buffer_node(allocate(16), (4,), float32))
        storage.node.buffer.view(float32, (4,))[...] = number
        made.append(storage)
    return made


def copies(held, positions):
    nodes = [storage.node for storage in held]
    return Overwritten(positions).copies(nodes)


@pytest.mark.parametrize("positions", [[], [1], [0, 2], [2, 1, 0]])
def test_memory_of_storages_alone_is_free(positions):
    assert copies(storages(3), positions) == {}


@pytest.mark.parametrize("positions", [[1], [0, 1, 2]])
@pytest.mark.parametrize("what", ["node", "memory", "both"])
def test_what_somebody_else_sees_is_copied(positions, what):
    held = storages(3)
    node = held[1].node if what != "memory" else None
    memory = held[1].node.buffer if what != "node" else None
    found = copies(held, positions)
    assert list(found) == [1]
    assert found[1].view(float32, (4,)).tolist() == [1] * 4
    assert found[1].address != held[1].node.buffer.address
    del node, memory
    assert copies(held, positions) == {}


@pytest.mark.parametrize("positions", [[0], [0, 1]])
def test_memory_of_others_is_copied(positions):
    held = storages(2)
    array = np.full(4, 7, np.float32)
    buffer = Buffer(array.ctypes.data, 16, array, True)
    held[0].node = buffer_node(buffer, (4,), float32)
    del buffer
    assert list(copies(held, positions)) == [0]


def test_put_writes_into_memory_of_others_and_replaces_the_rest():
    array = np.ones(4, np.float32)
    tensor = torch.from_numpy(array)
    (new,) = storages(1)
    put(tensor._storage, tensor._storage.node, new.node.buffer)
    assert array.tolist() == [0] * 4
    (mine,) = storages(1)
    put(mine, mine.node, new.node)
    assert mine.node is new.node
