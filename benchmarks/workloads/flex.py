"""flex_attention: forward, gradients, decoding; and making the mask of a million tokens.

PyTorch runs its flex_attention compiled. Where it has no way on a CPU it does what comes next:
gradients and dense masks by scaled_dot_product_attention with the mask as a tensor.

The gradient of the queries is added up in a fixed order. With at least as many heads as threads
each thread has whole heads, so an unordered variant would run the same instructions. With one head
the order costs time; an unordered variant could at best run as "backward 8192, 2 heads" does, at
the same rate: the ratio of the two rates is the cost.
"""

import importlib

import numpy as np

from workloads import Case

TITLE = "flex attention, 8 heads of 4096x64 float32; decoding 4x32 heads, 2048 keys; masks"
SHAPE = (1, 8, 4096, 64)
WINDOW, HALF, MILLION = 256, 1200, 1 << 20


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def window(b, h, q_idx, kv_idx):
    return (q_idx >= kv_idx) & (q_idx - kv_idx < WINDOW)


def half(b, h, q_idx, kv_idx):
    """Half of all blocks have something: |q - kv| < HALF."""
    return (q_idx - kv_idx < HALF) & (kv_idx - q_idx < HALF)


MASKS = {"causal": causal, "window": window, "half": half}


def cases():
    return {
        "window forward": {"mask": "window"},
        "causal forward": {"mask": "causal"},
        "causal forward, SDPA": {"mask": "causal", "dense": True},
        "half forward": {"mask": "half"},
        "half forward, SDPA": {"mask": "half", "dense": True},
        "alibi causal forward": {"mask": "causal", "alibi": True},
        "window forward+backward": {"mask": "window", "backward": True},
        "causal forward+backward": {"mask": "causal", "backward": True},
        "backward 8192, 2 heads": {"mask": "window", "backward": True, "shape": (1, 2, 8192, 64)},
        "backward 8192, 1 head": {"mask": "window", "backward": True, "shape": (1, 1, 8192, 64)},
        "decode": {"decode": 1},
        "decode, 16 calls": {"decode": 16},
        "mask of 1M tokens": {"million": True},
    }


GOALS = {
    "window forward": "2x flex compiled; first call 1.5 s cold",
    "causal forward": "1.3x the better of flex and SDPA",
    "causal forward, SDPA": "1.3x the better of flex and SDPA",
    "half forward": "1x SDPA with the mask",
    "half forward, SDPA": "1x SDPA with the mask",
    "window forward+backward": "6x, try 8x SDPA with the mask",
    "backward 8192, 2 heads": "0 % for the order",
    "backward 8192, 1 head": "its rate beside that of 2 heads",
    "decode": "1.5x flex compiled; 70 % of plain reads",
    "mask of 1M tokens": "1 s, 200 MiB",
}


def build(torch, mask="", million=False, decode=0, **options):
    flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
    if million:
        return _million(torch, flex)
    if decode:
        return _decode(torch, flex, decode)
    return _attention(torch, flex, MASKS[mask], **options)


def _tensor(torch, rng, *shape):
    # A copy: memory that belongs to numpy may change, and is read anew each time.
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).clone()


def _attend(torch, flex):
    """flex_attention as one calls it for speed."""
    if torch.__name__ == "rushlight":
        return flex.flex_attention
    return torch.compile(flex.flex_attention)


def _attention(torch, flex, mask_mod, dense=False, alibi=False, backward=False, shape=SHAPE):
    """`dense`: PyTorch takes scaled_dot_product_attention, causal or with the mask as a tensor."""
    rng, length = np.random.default_rng(0), shape[2]
    q, k, v, g = (_tensor(torch, rng, *shape) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_(backward)
    block_mask = flex.create_block_mask(mask_mod, None, None, length, length, device="cpu")
    kept = flex.create_mask(mask_mod, None, None, length, length, device="cpu")
    slopes = torch.tensor([2.0 ** -(n + 1) for n in range(shape[1])])
    attend = _attend(torch, flex)

    def bend(score, b, h, q_idx, kv_idx):
        return score + slopes[h] * (kv_idx - q_idx)

    sdpa = torch.nn.functional.scaled_dot_product_attention
    by_sdpa = (dense or backward) and torch.__name__ != "rushlight"

    def run():
        if by_sdpa and mask_mod is causal:
            y = sdpa(q, k, v, is_causal=True)
        elif by_sdpa:
            y = sdpa(q, k, v, attn_mask=kept)
        else:
            y = attend(q, k, v, score_mod=bend if alibi else None, block_mask=block_mask)
        if not backward:
            return y
        for x in (q, k, v):
            x.grad = None
        y.backward(g)
        return [y.detach(), q.grad, k.grad, v.grad]

    b, h, _, d = shape
    pairs = float(np.count_nonzero(kept.numpy())) * b * h
    return Case(run, {"flop": 4.0 * pairs * d * (3.5 if backward else 1.0)})


def _decode(torch, flex, calls):
    """One query per sequence, 32 heads on 8 of the cache; `calls` without a rest between."""
    rng, batch, heads, kv_heads, keys, width = np.random.default_rng(0), 4, 32, 8, 2048, 64
    q = _tensor(torch, rng, batch, heads, 1, width)
    k, v = (_tensor(torch, rng, batch, kv_heads, keys, width) for _ in range(2))
    attend = _attend(torch, flex)

    def run():
        with torch.no_grad():
            outs = [_computed(attend(q, k, v, enable_gqa=True)) for _ in range(calls)]
        return outs

    return Case(run, {"32 MiB read": calls * 2.0 * 4 * batch * kv_heads * keys * width})


def _computed(x):
    """The tensor, its value made now: a step of decoding needs that of the one before."""
    x.numpy()
    return x


def _million(torch, flex):
    """The blocks of a causal window of 1000; PyTorch looks at all 2^40 elements, so it is left
    out."""
    if torch.__name__ != "rushlight":
        raise NotImplementedError("2^40 elements, a byte or more each")

    def near(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (q_idx - kv_idx < 1000)

    def run():
        mask = flex.create_block_mask(near, None, None, MILLION, MILLION)
        return [mask.sparsity()]

    return Case(run)
