"""create_block_mask against the dense mask: by interval analysis and by elements; the cells."""

import tracemalloc

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention import divide, masks
from rushlight.attention.spans import CELL
from rushlight.nn.attention.flex_attention import and_masks, create_block_mask, create_mask
from rushlight.ops.pairs import PAIR_GROUP, PAIR_PART, PAIR_ROWS, PAIR_TILE

LENGTHS = (200, 230)
IDS = torch.tensor(np.repeat(np.arange(10), 23))
SHIFT = torch.tensor([[3, 40], [0, 90]])
SHUFFLED = torch.tensor(np.random.default_rng(0).integers(0, 4, 230))
MASKS = {
    "causal": masks.causal,
    "window": masks.sliding_window(40),
    "prefix": masks.prefix_lm(50),
    "document": masks.document(IDS),
    "shuffled documents": masks.document(SHUFFLED),
    "causal documents": and_masks(masks.causal, masks.document(IDS)),
    "dilated": masks.dilated(3),
    "block_diagonal": masks.block_diagonal(70),
    "natten": masks.natten_2d(16, 16, 5),
    "tree": masks.tree(torch.tensor(np.tri(230, dtype=bool))),
    "captured shift": lambda b, h, q, kv: q + SHIFT[b, h] >= kv,
    "captured step by step": lambda b, h, q, kv: q + SHIFT[b][h] >= kv,
    "heads": lambda b, h, q, kv: (q >= kv) ^ (h == 1) | (b == 1) & (kv < 7),
    "not": lambda b, h, q, kv: ~((q - kv).abs() < 30),
    "where": lambda b, h, q, kv: torch.where(h == 0, q - kv, kv - q) >= 0,
    "floats": lambda b, h, q, kv: q * 0.37 - 3.1 < kv.float(),
    "quotients": lambda b, h, q, kv: (q // 16 >= kv // 32) & (kv % 64 < 60),
    "extremes": lambda b, h, q, kv: torch.minimum(q, kv * 2).clamp(5, 100) == torch.maximum(q, kv),
    "narrow": lambda b, h, q, kv: q.to(torch.int8) > kv.to(torch.uint8).int(),
    "nothing": lambda b, h, q, kv: q < 0,
    "everything": lambda b, h, q, kv: kv >= 0,
    "constant": lambda b, h, q, kv: torch.ones((), dtype=torch.bool),
}


def dense_states(mask, size):
    rows, columns = (-(-n // s) for n, s in zip(mask.shape[-2:], size, strict=True))
    padded = np.zeros((*mask.shape[:2], rows * size[0], columns * size[1]), bool)
    padded[:, :, : mask.shape[2], : mask.shape[3]] = mask
    cut = padded.reshape(*mask.shape[:2], rows, size[0], columns, size[1])
    return cut.any((3, 5)).astype(int) + cut.all((3, 5))


@pytest.mark.parametrize("analysed", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_blocks_are_those_of_the_dense_mask(name, analysed, monkeypatch):
    monkeypatch.setattr(divide, "WORTH_ANALYSIS", 0 if analysed else 1 << 60)
    dense = create_mask(MASKS[name], 2, 2, *LENGTHS).numpy()
    for size in ((32, 32), (20, 48), (128, 64)):
        mask = create_block_mask(MASKS[name], 2, 2, *LENGTHS, BLOCK_SIZE=size)
        assert (mask.states() == dense_states(dense, size)).all(), size


@pytest.mark.parametrize("size", [32, 128, (64, 128), (50, 20)])
@pytest.mark.parametrize("name", ["window", "causal documents", "dilated", "heads", "natten"])
def test_tables_say_what_the_mask_says(name, size, monkeypatch):
    monkeypatch.setattr(divide, "WORTH_ANALYSIS", 0)
    dense = create_mask(MASKS[name], 2, 2, *LENGTHS).numpy()
    mask = create_block_mask(MASKS[name], 2, 2, *LENGTHS, BLOCK_SIZE=size)
    tables = [t.numpy() for t in mask.tables()]
    for kept, starts, spans in ((dense, *tables[:2]), (np.swapaxes(dense, 2, 3), *tables[2:])):
        codes = codes_of(kept.shape, starts, spans)
        for at in np.ndindex(codes.shape):
            b, h, row, part = at
            rows = slice(row * PAIR_GROUP, (row + 1) * PAIR_GROUP)
            here = kept[b, h, rows, part * PAIR_PART : (part + 1) * PAIR_PART]
            assert not (codes[at] == 0 and here.any()), at
            assert not (codes[at] == 2 and not here.all()), at
    if size == 32 and name in ("window", "heads"):  # known cells are used
        want = dense_states(dense, (PAIR_GROUP, PAIR_PART)) > 0
        assert (codes_of(dense.shape, *tables[:2])[:, :, : want.shape[2]] > 0).sum() == want.sum()


def codes_of(shape, starts, spans):
    """The code of each group of rows and part of a tile; spans must ascend."""
    batch, heads, rows, columns = shape
    blocks, tiles = -(-rows // PAIR_ROWS), -(-columns // PAIR_TILE)
    groups = PAIR_ROWS // PAIR_GROUP
    parts = PAIR_TILE // PAIR_PART
    codes = np.zeros((batch, heads, blocks * groups, tiles * parts), int)
    assert starts.shape == (batch, heads, blocks + 1)
    for b, h, block in np.ndindex(batch, heads, blocks):
        end = 0
        for first, stop, code in spans[starts[b, h, block] : starts[b, h, block + 1]]:
            assert end <= first < stop <= tiles and code > 0
            end = stop
            for group, part in np.ndindex(groups, parts):
                kind = code >> (2 * (group * parts + part)) & 3
                codes[b, h, block * groups + group, first * parts + part : stop * parts : parts] = (
                    kind
                )
    return codes


def test_a_window_of_a_million_costs_blocks_not_elements():
    """The dense mask has a TiB of elements, and 64 million blocks."""
    tracemalloc.start()
    mask = create_block_mask(masks.sliding_window(1000), None, None, 1 << 20, 1 << 20)
    assert len(mask.runs().first) < 4 * 8192
    assert mask.sparsity() > 99.8
    causal = create_block_mask(masks.causal, None, None, 1 << 20, 1 << 20)
    assert causal.runs().counts(True)[0, 0].tolist() == list(range(8192))
    assert (causal.runs().counts(False) == 1).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 28


def test_no_cells_for_blocks_that_are_not_made_of_them():
    mask = create_block_mask(masks.causal, None, None, 64, 64, BLOCK_SIZE=CELL // 2)
    assert mask._cells is None and len(mask.tables()) == 4
