"""BlockMask: lists, pictures, slices, and create_block_mask against the dense mask."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention import divide
from rushlight.attention.masks import causal
from rushlight.nn.attention.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def near_diagonal(b, h, i, j):
    return (i - j).abs() <= 64


def dense_states(mask, size):
    """0, 1, 2 for absent, partial, full blocks, from the dense mask."""
    rows, columns = (-(-n // s) for n, s in zip(mask.shape[-2:], size, strict=True))
    states = np.zeros((*mask.shape[:2], rows, columns), int)
    for r in range(rows):
        for c in range(columns):
            block = mask[:, :, r * size[0] : (r + 1) * size[0], c * size[1] : (c + 1) * size[1]]
            states[:, :, r, c] = block.any((2, 3))
            if block.shape[2:] == size:
                states[:, :, r, c] += block.all((2, 3))
    return states


def test_documented_example():
    mask = create_block_mask(near_diagonal, None, None, 256, 256, BLOCK_SIZE=64)
    assert mask.kv_num_blocks.tolist() == [[[1, 2, 2, 1]]]
    assert mask.full_kv_num_blocks.tolist() == [[[1, 1, 1, 1]]]
    assert mask.sparsity() == 37.5
    assert mask.shape == (1, 1, 256, 256) and mask.numel() == 65536
    assert mask.kv_indices.dtype is torch.int32 and mask.q_indices.shape == (1, 1, 4, 4)
    assert mask.to_dense().tolist() == [[[[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]]]


def test_index_rows_list_present_blocks_first():
    mask = create_block_mask(
        lambda b, h, i, j: (i >= j) & (i - j < 2), None, None, 4, 4, BLOCK_SIZE=2
    )
    assert mask.kv_num_blocks.tolist() == [[[1, 2]]]
    assert mask.kv_indices.tolist() == [[[[0, 1], [0, 1]]]]
    assert mask.q_num_blocks.tolist() == [[[2, 1]]]
    assert mask.q_indices.tolist() == [[[[0, 1], [1, 0]]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 0]]]


@pytest.mark.parametrize(
    ("descending", "partial", "full"),
    [
        (True, [[2, 1], [0, 2], [0, 1], [0]], [1, 1, 1, 0]),
        (False, [[0, 0], [1, 0], [2, 0], [2]], [0, 1, 1, 1]),
    ],
)
def test_write_order(descending, partial, full):
    mask = create_block_mask(
        near_diagonal, None, None, 256, 256, BLOCK_SIZE=64, compute_dq_write_order=True,
        dq_kv_order=descending,
    )  # fmt: skip
    for row, want in enumerate(partial):
        assert mask.dq_write_order[0, 0, row, : len(want)].tolist() == want
    assert mask.dq_write_order_full[0, 0, :, 0].tolist() == full
    assert mask.dq_kv_order_spt is descending and mask.dq_kv_order is None
    assert mask[0, 0].dq_write_order.shape == (1, 1, 4, 4)


@pytest.mark.parametrize("limit", [1 << 22, 50])
@pytest.mark.parametrize(("lengths", "size"), [((5, 7), (4, 4)), ((33, 20), (8, 16))])
def test_blocks_are_those_of_the_dense_mask(lengths, size, limit, monkeypatch):
    monkeypatch.setattr(divide, "ELEMENTS_AT_ONCE", limit)

    def kept(b, h, i, j):
        return ((i // 3 + h) % 2 == 0) & (i >= j + b) | (j < 4)

    mask = create_block_mask(kept, 2, 3, *lengths, BLOCK_SIZE=size)
    dense = create_mask(kept, 2, 3, *lengths).numpy()
    want = dense_states(dense, size)
    assert (mask.states() == want).all()
    together = create_block_mask(kept, 2, 3, *lengths, BLOCK_SIZE=size, separate_full_blocks=False)
    assert together.full_kv_num_blocks is None
    assert (together.states() == (want > 0)).all()


def test_sparsity_counts_only_what_lies_inside():
    mask = create_block_mask(causal, None, None, 5, 7, BLOCK_SIZE=4)
    assert mask.sparsity() == pytest.approx(100 * (1 - (4 * 4 + 1 * 7) / 35))
    assert create_block_mask(causal, None, None, 0, 7).sparsity() == 0.0
    assert create_block_mask(lambda b, h, i, j: j >= 0, 1, 1, 5, 7).sparsity() == 0.0


def test_pictures():
    mask = create_block_mask(causal, None, 6, 16, 16, BLOCK_SIZE=4)
    text = mask.to_string()
    assert text.startswith("(0, 0)\n██      \n████    \n██████  \n████████\n")
    assert "..." in text and "(0, 4)" not in text
    assert mask.to_string(grid_size=2, limit=1).startswith("(0, 0)\n░░  \n██░░\n")
    assert str(mask[:, :1]).startswith("BlockMask(shape=(1, 1, 16, 16), sparsity=37.50%, \n(0, 0)")
    assert "kv_indices=torch.Size([1, 6, 4, 4])" in repr(mask)


def test_slices_keep_dimensions_and_lose_mask_mod():
    mask = create_block_mask(causal, None, 2, 16, 16, BLOCK_SIZE=4)
    part = mask[0, 1, :2]
    assert part.kv_num_blocks.shape == (1, 1, 2) and part.seq_lengths == (16, 16)
    assert mask[0, -1].kv_indices.shape == (1, 1, 4, 4)
    q = torch.zeros(1, 1, 16, 4)
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        flex_attention(q, q, q, block_mask=mask[0, 0])


def test_a_slice_with_a_shifted_mask_mod_is_a_decoding_step():
    q, k = torch.randn(1, 2, 16, 4), torch.randn(1, 2, 16, 4)
    mask = create_block_mask(causal, None, None, 16, 16, BLOCK_SIZE=4)
    step = mask[:, :, 2]
    step.mask_mod = lambda b, h, i, j: i + 8 >= j
    step.seq_lengths = (4, 16)
    got = flex_attention(q[:, :, 8:12], k, k, block_mask=step)
    assert torch.allclose(got, flex_attention(q, k, k, block_mask=mask)[:, :, 8:12], atol=1e-6)


def test_adjust_crops_to_the_upper_left():
    mask = create_block_mask(causal, None, None, 16, 16, BLOCK_SIZE=4)
    small = mask._adjust(8, 12)
    assert small.shape == (1, 1, 8, 12)
    assert small.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0]]]]
    q, k = torch.randn(1, 1, 8, 4), torch.randn(1, 1, 12, 4)
    fresh = create_block_mask(causal, None, None, 8, 12, BLOCK_SIZE=4)
    got, want = (flex_attention(q, k, k, block_mask=m) for m in (small, fresh))
    assert (got == want).all()


def test_from_kv_blocks_and_as_tuple():
    mask = create_block_mask(causal, None, None, 16, 16, BLOCK_SIZE=4)
    again = BlockMask.from_kv_blocks(
        mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices, 4,
        causal,
    )  # fmt: skip
    assert again.shape == mask.shape
    assert (again.q_indices == mask.q_indices).all()
    assert (again.full_q_num_blocks == mask.full_q_num_blocks).all()
    assert len(mask.as_tuple()) == 17 and len(mask.as_tuple(flatten=False)) == 15
    assert mask.as_tuple()[:2] == (16, 16) and mask.as_tuple()[-1] is causal
    bare = BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, compute_q_blocks=False)
    assert bare.q_indices is None and bare.mask_mod is noop_mask and bare.BLOCK_SIZE == (128, 128)
    assert mask.to("cpu").sparsity() == mask.sparsity()


def test_combined_masks():
    even = lambda b, h, i, j: j % 2 == 0  # noqa: E731
    both = create_mask(and_masks(causal, even), None, None, 4, 4)
    either = create_mask(or_masks(causal, even), None, None, 4, 4)
    one, two = (create_mask(m, None, None, 4, 4) for m in (causal, even))
    assert (both == (one & two)).all() and (either == (one | two)).all()
    from_scores = create_mask(
        lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")), None, None, 4, 4
    )
    assert (from_scores == one).all()


def test_errors():
    with pytest.raises(AssertionError, match="Expected 4 or 5 positional args, got 3"):
        create_block_mask(lambda a, b, c: a, 1, 1, 4, 4)
    with pytest.raises(AssertionError, match="must be torch.bool, got torch.float32"):
        create_block_mask(lambda b, h, i, j: i * 1.0, 1, 1, 4, 4)
    with pytest.raises(AssertionError, match="requires a mask_mod function"):
        create_block_mask(lambda s, b, h, i, j: s, 1, 1, 4, 4)
    with pytest.raises(RuntimeError, match="should be callable"):
        and_masks(causal, 3)
    with pytest.raises(ValueError, match="dq_kv_order must be a bool"):
        create_block_mask(causal, 1, 1, 4, 4, dq_kv_order=1)
    with pytest.raises(ValueError, match="dq_write_order_full requires"):
        BlockMask((1, 1), *[torch.zeros(1, 1)] * 8, dq_write_order_full=torch.zeros(1))
