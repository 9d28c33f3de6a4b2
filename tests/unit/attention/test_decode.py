"""Few queries against many keys: the split, offsets of a mask, growing and paged caches."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention import masks
from rushlight.attention.paged import PagedCache, paged
from rushlight.engine.realize import PROGRAMS
from rushlight.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
)

MASKS = {
    "none": None,
    "causal": lambda b, h, q, kv: q + 700 >= kv,
    "window": lambda b, h, q, kv: (q + 1200 >= kv) & (q + 1200 - kv < 300),
    "heads": lambda b, h, q, kv: (kv // 50) % 4 == h % 4,
    "batch": lambda b, h, q, kv: kv < 400 * (b + 1),
    "nothing": lambda b, h, q, kv: kv < 0,
}


def inputs(batch, heads, kv_heads, length, keys, size=16, width=24, dtype=torch.float32):
    torch.manual_seed(0)
    shapes = ((heads, length, size), (kv_heads, keys, size), (kv_heads, keys, width))
    return [torch.randn(batch, *shape).to(dtype) for shape in shapes]


def attend(q, k, v, *args, partition, **options):
    out, aux = flex_attention(
        q, k, v, *args, enable_gqa=True, return_aux=AuxRequest(True, True),
        kernel_options={"PARTITION_SIZE": partition}, **options,
    )  # fmt: skip
    return [out.to(aux.lse.dtype).numpy(), aux.lse.numpy(), aux.max_scores.numpy()]


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("length", [1, 3])
def test_partitions_give_what_all_keys_give(name, length):
    q, k, v = inputs(2, 8, 2, length, 1500)
    slopes = torch.randn(8)
    mod = (lambda s, b, h, q, kv: s + slopes[h] * 0.01 * (kv - q)) if length == 3 else None
    mask = MASKS[name]
    if mask is not None:
        heads = 8 if name == "heads" else None
        mask = create_block_mask(mask, 2, heads, length, 1500)
    whole = attend(q, k, v, mod, mask, partition=2048)
    for partition in (512, 128):
        parts = attend(q, k, v, mod, mask, partition=partition)
        for got, want in zip(parts, whole, strict=True):
            np.testing.assert_allclose(got, want, atol=3e-6, rtol=3e-6)
    assert np.isneginf(whole[1]).all() == (name == "nothing")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(dtype):
    q, k, v = inputs(1, 4, 2, 2, 700, dtype=dtype)
    out, lse, _ = attend(q, k, v, partition=128)
    want = flex_attention(q.double(), k.double(), v.double(), enable_gqa=True).numpy()
    tolerance = {torch.float64: 1e-14, torch.bfloat16: 1e-2, torch.float16: 1e-3}[dtype]
    np.testing.assert_allclose(out.astype(np.float64), want, atol=tolerance)
    assert lse.dtype == (np.float64 if dtype is torch.float64 else np.float32)


def test_a_gradient_can_be_taken():
    q, k, v = (x.requires_grad_() for x in inputs(1, 4, 2, 1, 700))
    out = flex_attention(q, k, v, enable_gqa=True)
    grads = torch.autograd.grad((out**2).sum(), (q, k, v))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    keys = [x.repeat_interleave(2, 1) for x in wide[1:]]
    scores = wide[0] @ keys[0].transpose(-2, -1) / 4
    want = torch.autograd.grad(((scores.softmax(-1) @ keys[1]) ** 2).sum(), wide)
    for got, wanted in zip(grads, want, strict=True):
        assert torch.allclose(got.double(), wanted, atol=1e-5)


@pytest.mark.parametrize("make", ["create", "lists"])
@pytest.mark.parametrize("offset", [0, 17, 130, 399])
def test_a_mask_at_an_offset_is_the_rows_of_the_whole_one(offset, make):
    mod = masks.sliding_window(90)
    mask = create_block_mask(mod, None, None, 400, 400)
    if make == "lists":  # its blocks count, too: those of the first rows are left out
        lists = [mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices]
        lists[0] = lists[0].clone()
        lists[0][..., 1] = 0
        mask = BlockMask.from_kv_blocks(*lists, mask_mod=mod, seq_lengths=(400, 400))
    q, k, v = inputs(1, 2, 2, 400, 400)
    want = flex_attention(q, k, v, block_mask=mask)
    for length in (1, 40):
        length = min(length, 400 - offset)
        part = mask.for_decode(offset, length)
        got = flex_attention(q[:, :, offset : offset + length], k, v, block_mask=part)
        assert (got == want[:, :, offset : offset + length]).all()
        assert part.for_decode(length - 1).shape == (1, 1, 1, 400)


def test_what_does_not_lie_in_a_mask_is_an_error():
    mask = create_block_mask(masks.causal, None, None, 100, 50)
    with pytest.raises(ValueError, match="queries 99 ... 100 and 50 keys do not lie"):
        mask.for_decode(99, 2)
    with pytest.raises(ValueError, match="60 keys"):
        mask.for_decode(0, 1, kv_len=60)
    with pytest.raises(ValueError, match=r"PARTITION_SIZE.*multiple of 64, got 100"):
        q, k, v = inputs(1, 2, 2, 1, 200)
        flex_attention(q, k, v, kernel_options={"PARTITION_SIZE": 100})


@pytest.mark.parametrize("masked", [False, True])
def test_a_growing_cache_makes_few_programs(masked):
    """First every size is a number, then it varies: two programs, one more where a count of
    partitions is 1 at first."""
    q, k, v = inputs(1, 4, 2, 1, 1000)
    mask = create_block_mask(masks.causal, None, None, 1000, 1000) if masked else None
    made = 0
    for length in (*range(600, 630), *range(900, 930)):
        part = None if mask is None else mask.for_decode(length - 1, kv_len=length)
        keys, values = k[:, :, :length].contiguous(), v[:, :, :length].contiguous()
        for tensor in (keys, values):
            tensor.numpy()
        before = PROGRAMS.compiled
        flex_attention(q, keys, values, block_mask=part, enable_gqa=True).numpy()
        made += PROGRAMS.compiled - before
    assert made <= 3


def filled_cache(lengths, size, page_size=16):
    """Sequences of these lengths, appended in turns so that their pages are mixed."""
    torch.manual_seed(1)
    cache = PagedCache(64, page_size, len(lengths), 2, size, 24)
    whole = [(torch.randn(2, n, size), torch.randn(2, n, 24)) for n in lengths]
    for start in range(0, max(lengths), 37):
        for number, (key, value) in enumerate(whole):
            part = slice(start, min(start + 37, key.size(1)))
            if part.start < part.stop:
                cache.append(number, key[:, part], value[:, part])
    return cache, whole


@pytest.mark.parametrize("partition", [64, 2048])
def test_pages_give_what_one_cache_gives(partition):
    lengths = [300, 90, 211]
    cache, whole = filled_cache(lengths, 16)
    assert cache.lengths == lengths and len({p for pages in cache.pages for p in pages}) == 39
    q = torch.randn(3, 4, 1, 16)
    ends = torch.tensor(lengths)
    mask = create_block_mask(lambda b, h, q, kv: kv < ends[b], 3, None, 1, 300)
    got = flex_attention(
        q, cache.key(), cache.value(), block_mask=mask, enable_gqa=True,
        kernel_options={"PARTITION_SIZE": partition},
    )  # fmt: skip
    for number, (key, value) in enumerate(whole):
        want = flex_attention(
            q[number : number + 1], key[None], value[None], enable_gqa=True,
            kernel_options={"PARTITION_SIZE": partition},
        )  # fmt: skip
        assert torch.allclose(got[number], want[0], atol=1e-6)


def test_a_long_prompt_in_pages():
    cache, whole = filled_cache([200], 16)
    q = torch.randn(1, 4, 200, 16)
    mask = create_block_mask(masks.causal, None, None, 200, 200)
    got = flex_attention(q, cache.key(), cache.value(), block_mask=mask, enable_gqa=True)
    key, value = (x[None] for x in whole[0])
    assert (got == flex_attention(q, key, value, block_mask=mask, enable_gqa=True)).all()
    assert (cache.key() == key).all()  # an ordinary tensor for everybody else


def test_pages_come_back_and_run_out():
    cache, _ = filled_cache([300, 90], 16)
    used = len(cache.free)
    cache.release(1)
    assert len(cache.free) == used + 6 and cache.lengths == [300, 0]
    with pytest.raises(RuntimeError, match="63 pages are needed for 1000 positions of sequence 1"):
        cache.append(1, torch.zeros(2, 1000, 16), torch.zeros(2, 1000, 24))
    with pytest.raises(ValueError, match="length 33 does not fit 2 pages of 16"):
        paged(torch.zeros(4, 1, 16, 2), torch.zeros(1, 2, dtype=torch.int64), 33)
    with pytest.raises(ValueError, match="must hold integers"):
        paged(torch.zeros(4, 1, 16, 2), torch.zeros(1, 2), 3)
    with pytest.raises(IndexError):
        table = torch.full((1, 2), 7)
        q = torch.zeros(1, 1, 1, 2)
        key = paged(torch.zeros(4, 1, 16, 2), table, 3)
        flex_attention(q, key, key).numpy()
