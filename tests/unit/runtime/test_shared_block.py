"""Small values share a block, of a bounded size; nothing overlaps."""

import gc

import pytest

from rushlight.runtime import buffer
from rushlight.runtime.allocator import ALIGN
from rushlight.runtime.shared_block import SHARED_BYTES, SMALL_BYTES, SharedBlock


@pytest.mark.parametrize(
    "sizes", [[], [4], [4, 0, 64, 65], [SMALL_BYTES] * 9, [4, SMALL_BYTES + 1, 8], [1000] * 200]
)
def test_memory_of_its_own_for_each(sizes):
    buffers = [None] * (len(sizes) + 1)
    SharedBlock(enumerate(sizes, 1)).take(buffers)
    assert buffers[0] is None
    ranges = sorted((b.address, b.address + b.nbytes) for b in buffers[1:])
    assert [b.nbytes for b in buffers[1:]] == sizes
    assert all(b.address % ALIGN == 0 and not b.foreign for b in buffers[1:])
    assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False))


def test_a_value_keeps_a_bounded_amount_of_memory():
    buffers = [None] * 500
    gc.collect()
    before = buffer.memory_allocated()
    SharedBlock((i, 1000) for i in range(500)).take(buffers)
    assert buffer.memory_allocated() - before >= 500_000
    kept = buffers[250]
    del buffers
    gc.collect()
    assert 1000 <= buffer.memory_allocated() - before <= SHARED_BYTES * 9 / 8
    del kept
    gc.collect()
    assert buffer.memory_allocated() == before
