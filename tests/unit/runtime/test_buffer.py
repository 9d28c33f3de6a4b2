"""Buffers and the caching allocator."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.base.dtypes import bfloat16, float32, int8
from rushlight.base.errors import OutOfMemoryError, RushlightError
from rushlight.runtime import allocator, buffer
from rushlight.runtime.allocator import ALIGN, BIG, FLOOR, WINDOW, Allocator, size_class


@given(st.integers(0, 1 << 40))
def test_size_class_wastes_at_most_an_eighth(nbytes):
    capacity = size_class(nbytes)
    assert capacity >= max(nbytes, ALIGN)
    assert capacity % ALIGN == 0
    assert capacity <= max(nbytes * 9 / 8 + ALIGN, ALIGN)
    assert size_class(capacity) == capacity


@pytest.mark.parametrize("nbytes", [0, 1, 64, 1000, 100_000, BIG, BIG + 1, 9 << 20])
def test_allocate_is_aligned_and_writable(nbytes):
    mine = buffer.allocate(nbytes)
    assert mine.nbytes == nbytes
    assert not mine.foreign
    assert mine.address % (BIG if nbytes >= BIG else ALIGN) == 0
    view = mine.view(int8, (nbytes,))
    view[:] = 7
    assert (mine.view(int8, (nbytes,)) == 7).all()


def test_view_shares_memory_and_keeps_it():
    gc.collect()  # what other tests left
    before = buffer.memory_allocated()
    mine = buffer.allocate(64)
    view = mine.view(bfloat16, (4, 2), offset=16)
    view[:] = 1.5
    assert view.ctypes.data == mine.address + 16
    assert mine.view(bfloat16, (32,))[8] == 1.5
    del mine
    gc.collect()
    part = view[1:]
    del view
    assert buffer.memory_allocated() == before + 64
    assert (part == 1.5).all()
    del part
    assert buffer.memory_allocated() == before


def test_view_out_of_bounds_is_refused():
    with pytest.raises(ValueError, match="needs 68 bytes, the buffer has 64"):
        buffer.allocate(64).view(float32, (17,))


def test_foreign_memory_is_held_and_never_cached():
    array = np.arange(6, dtype=np.float32)
    array.flags.writeable = False
    before = buffer.stats()
    foreign = buffer.from_array(array)
    address = array.ctypes.data
    del array
    view = foreign.view(float32, (2, 3))
    assert foreign.foreign
    assert foreign.address == address
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not view.flags.writeable
    del foreign, view
    assert buffer.stats() == before
    with pytest.raises(ValueError, match="no memory"):
        buffer.from_address(0, 8, None)
    with pytest.raises(ValueError, match="not C-contiguous"):
        buffer.from_array(np.zeros((3, 4))[:, ::2])


def test_freed_memory_is_reused_and_counted():
    own = Allocator()
    first = own.take(5000)
    address = first.address
    assert own.stats()["memory_allocated"] == size_class(5000)
    own.give(first)
    assert own.stats() == {
        "memory_allocated": 0,
        "max_memory_allocated": size_class(5000),
        "memory_cached": size_class(5000),
        "packed_weights": 0,
    }
    again = own.take(size_class(5000))
    assert again.address == address
    own.give(again)
    own.reset_peak()
    own.empty_cache()
    assert set(own.stats().values()) == {0}


def test_cache_is_bounded_by_the_recent_peak():
    own = Allocator()
    blocks = [own.take(FLOOR) for _ in range(8)]  # never touched, so it costs nothing
    for block in blocks:
        own.give(block)
    blocks.clear()
    assert own.stats()["memory_cached"] == 8 * FLOOR  # a training loop would want it back
    for _ in range(2 * WINDOW):
        own.give(own.take(BIG))
    assert own.stats()["memory_cached"] <= FLOOR + 2 * BIG
    assert own.stats()["max_memory_allocated"] == 8 * FLOOR


def test_return_in_the_middle_of_take_is_safe(monkeypatch):
    """The garbage collector may free a buffer while this thread holds the allocator's lock."""
    own = Allocator()
    kept = own.take(100)
    make = allocator._new_block

    def collecting(capacity):
        own.give(kept)
        return make(capacity)

    monkeypatch.setattr(allocator, "_new_block", collecting)
    own.take(5000)
    assert own.stats()["memory_cached"] == size_class(100)


def test_many_threads():
    own = Allocator()

    def work(seed):
        rng = np.random.default_rng(seed)
        held = []
        for size in rng.integers(1, 40_000, 500):
            block = own.take(int(size))
            np.asarray(buffer.from_address(block.address, 8, block))[:] = seed
            held.append(block)
            if len(held) > 20:
                own.give(held.pop(int(rng.integers(len(held)))))
        for block in held:
            own.give(block)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = own.stats()
    assert stats["memory_allocated"] == 0
    addresses = [block.address for blocks in own._free.values() for block in blocks]
    assert len(set(addresses)) == len(addresses)
    assert stats["memory_cached"] == sum(
        block.capacity for blocks in own._free.values() for block in blocks
    )


LIMITED = """
import resource
from rushlight.base.errors import OutOfMemoryError
from rushlight.runtime import buffer
limit = 1 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
held = buffer.allocate(1 << 20)
idle = [buffer.allocate(96 << 20) for _ in range(4)]
del idle  # cached; must be given back before there is an error
big = buffer.allocate(500 << 20)
del big
try:
    buffer.allocate(3 << 30)
except OutOfMemoryError as error:
    assert isinstance(error, RuntimeError)
    assert f"{3 << 30} bytes" in str(error) and f"{1 << 20} bytes are in use" in str(error), error
    buffer.allocate(400 << 20)  # still works
    print("good")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_out_of_memory_says_what_was_asked_and_used():
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "good\n", done.stderr


def test_error_texts():
    error = OutOfMemoryError(10, 20, 30)
    assert isinstance(error, RushlightError)
    assert str(error).endswith("20 bytes are in use by tensors and 30 bytes were cached")
    with pytest.raises(ValueError, match="nbytes must be >= 0"):
        buffer.allocate(-1)
