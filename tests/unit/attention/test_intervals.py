"""Interval analysis never concludes too much: numbers that wrap, overflow, are NaN, or are no
float64 give the blocks of the dense mask."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention import divide
from rushlight.nn.attention.flex_attention import create_block_mask, create_mask
from tests.unit.attention.test_divide import dense_states

LENGTH = 200
AT = np.arange(LENGTH)
BYTES = torch.tensor((AT % 11).astype(np.uint8))
SIGNED = torch.tensor((AT % 11 * 12).astype(np.int8))
LARGE = torch.tensor(2**60 + AT // 50)
LARGEST = torch.tensor((AT // 50).astype(np.uint64) + np.uint64(2**63))
NAN = torch.tensor(np.where(AT % 7 == 3, np.nan, 1.0).astype(np.float32))
INFINITE = torch.full((LENGTH,), float("inf"))
MASKS = {
    "float remainder": lambda b, h, q, kv: (q * 0.7) % 3 < 2.5,
    "remainder below one": lambda b, h, q, kv: ((q - kv) * 0.5) % 1.0 < 0.25,
    "unsigned difference": lambda b, h, q, kv: (BYTES[q] - BYTES[kv]) > 100,
    "int8 sum": lambda b, h, q, kv: (SIGNED[q] + SIGNED[kv]) < 0,
    "int8 abs": lambda b, h, q, kv: (SIGNED[q] + SIGNED[kv]).abs() >= 0,
    "int32 product": lambda b, h, q, kv: q.to(torch.int32) * 100000000 < 0,
    "cast to byte": lambda b, h, q, kv: q.to(torch.uint8) >= kv.to(torch.uint8),
    "large ids": lambda b, h, q, kv: LARGE[q] == LARGE[kv],
    "large ids, moved": lambda b, h, q, kv: LARGE[q] + 1 == LARGE[kv] + 1,
    "large ids, clamped": lambda b, h, q, kv: LARGE[q].clamp(max=2**60 + 2) == LARGE[kv],
    "largest ids": lambda b, h, q, kv: LARGEST[q] == LARGEST[kv],
    "nan": lambda b, h, q, kv: NAN[kv] > 0.5,
    "nan is never equal": lambda b, h, q, kv: NAN[kv] != 5,
    "abs of nan": lambda b, h, q, kv: NAN[kv].abs() >= 0,
    "clamped nan": lambda b, h, q, kv: NAN[kv].clamp(max=5) <= 5,
    "inf": lambda b, h, q, kv: INFINITE[q] == INFINITE[kv],
    "inf - inf": lambda b, h, q, kv: INFINITE[q] - INFINITE[kv] == 0,
    "float32 overflow": lambda b, h, q, kv: q.float() * 1e38 - kv.float() * 1e38 >= 0,
    "float16 overflow": lambda b, h, q, kv: q.half() * 1000 - kv.half() * 1000 >= 0,
}


@pytest.mark.parametrize("name", MASKS)
def test_blocks_are_those_of_the_dense_mask(name, monkeypatch):
    monkeypatch.setattr(divide, "WORTH_ANALYSIS", 0)
    dense = create_mask(MASKS[name], None, None, LENGTH, LENGTH).numpy()
    mask = create_block_mask(MASKS[name], None, None, LENGTH, LENGTH, BLOCK_SIZE=32)
    assert (mask.states() == dense_states(dense, (32, 32))).all()


def test_blocks_between_different_large_ids_are_not_looked_at():
    ids = torch.tensor(2**60 + np.arange(1 << 14) // 1000 * 5000)
    shape = (1, 1, len(ids), len(ids))
    division = divide.Division(lambda b, h, q, kv: ids[q] == ids[kv], shape, (128, 128))
    looked = []
    division._look = lambda boxes: looked.append(len(boxes))
    division._divide()
    assert 0 < sum(looked) < 128 * 128 // 10
