"""flex_attention: forward, gradients, decoding; and making the mask of a million tokens.

PyTorch runs its flex_attention compiled. Where it has no way on a CPU it does what comes next:
gradients and dense masks by scaled_dot_product_attention with the mask as a tensor.
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
        "half forward": {"mask": "half"},
        "half forward, SDPA": {"mask": "half", "dense": True},
        "alibi causal forward": {"mask": "causal", "alibi": True},
        "window forward+backward": {"mask": "window", "backward": True},
        "causal forward+backward": {"mask": "causal", "backward": True},
        "decode": {"decode": True},
        "mask of 1M tokens": {"million": True},
    }


def build(torch, mask="", million=False, decode=False, **options):
    flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
    if million:
        return _million(torch, flex)
    if decode:
        return _decode(torch, flex)
    return _attention(torch, flex, MASKS[mask], **options)


def _tensor(torch, rng, *shape):
    # A copy: memory that belongs to numpy may change, and is read anew each time.
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).clone()


def _attend(torch, flex):
    """flex_attention as one calls it for speed."""
    if torch.__name__ == "rushlight":
        return flex.flex_attention
    return torch.compile(flex.flex_attention)


def _attention(torch, flex, mask_mod, dense=False, alibi=False, backward=False):
    rng, length = np.random.default_rng(0), SHAPE[2]
    q, k, v, g = (_tensor(torch, rng, *SHAPE) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_(backward)
    block_mask = flex.create_block_mask(mask_mod, None, None, length, length, device="cpu")
    kept = flex.create_mask(mask_mod, None, None, length, length, device="cpu")
    slopes = torch.tensor([2.0 ** -(n + 1) for n in range(SHAPE[1])])
    attend = _attend(torch, flex)

    def bend(score, b, h, q_idx, kv_idx):
        return score + slopes[h] * (kv_idx - q_idx)

    def run():
        if dense or (backward and torch.__name__ != "rushlight"):
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=kept)
        else:
            y = attend(q, k, v, score_mod=bend if alibi else None, block_mask=block_mask)
        if not backward:
            return y
        for x in (q, k, v):
            x.grad = None
        y.backward(g)
        return [y.detach(), q.grad, k.grad, v.grad]

    b, h, _, d = SHAPE
    pairs = float(np.count_nonzero(kept.numpy())) * b * h
    return Case(run, {"flop": 4.0 * pairs * d * (3.5 if backward else 1.0)})


def _decode(torch, flex):
    """One query per sequence, 32 heads on 8 of the cache."""
    rng, batch, heads, kv_heads, keys, width = np.random.default_rng(0), 4, 32, 8, 2048, 64
    q = _tensor(torch, rng, batch, heads, 1, width)
    k, v = (_tensor(torch, rng, batch, kv_heads, keys, width) for _ in range(2))
    attend = _attend(torch, flex)

    def run():
        with torch.no_grad():
            return attend(q, k, v, enable_gqa=True)

    return Case(run, {"byte": 2.0 * 4 * batch * kv_heads * keys * width})


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
