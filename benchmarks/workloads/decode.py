"""A language model of SmolLM2-135M's sizes with random weights: one token behind 200 others, and
a prompt of 256 tokens.

With 4-bit weights Rushlight keeps them packed; PyTorch has no such product on the CPU and gets the
same numbers as float32, or as bfloat16 in the bfloat16 case.
"""

import importlib

import numpy as np

from workloads import Case

TITLE = "a 135M-parameter Llama: one token; a prompt of 256"
LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, DEPTH, VOCAB = 30, 576, 1536, 9, 3, 64, 49152
LENGTH, PLACE, BLOCK, PROMPT = 256, 200, 32, 256
WEIGHTS = {
    "qkv": ((HEADS + 2 * KV_HEADS) * DEPTH, WIDTH), "out": (WIDTH, WIDTH),
    "expand": (2 * HIDDEN, WIDTH), "contract": (WIDTH, HIDDEN),
}  # fmt: skip


def cases():
    names = ("4-bit", "bfloat16", "float32")
    prompts = {f"{name}, prompt": {"weights": name, "tokens": PROMPT} for name in names}
    return {name: {"weights": name} for name in names} | prompts


class Dense:
    """A weight as plain numbers."""

    def __init__(self, weight):
        self.weight = weight

    def linear(self, x):
        weight = self.weight
        return (x.to(weight.dtype) @ weight.T).to(x.dtype)


def make_weight(torch, rng, shape, weights):
    """Blocks of 32 numbers of four bits with a scale and a minimum, or what they stand for."""
    rows, columns = shape
    blocks = rng.integers(0, 256, (rows * columns // BLOCK, 20)).astype(np.uint8)
    halves = np.array([0.01, -0.075], "<f2") * rng.uniform(0.5, 1, (len(blocks), 1))
    blocks[:, :4] = halves.astype("<f2").view(np.uint8)
    if weights == "4-bit" and torch.__name__ == "rushlight":
        gguf = importlib.import_module(f"{torch.__name__}.serialization.gguf")
        return gguf.pack_blocks("Q4_1", shape, torch.tensor(blocks))
    scale, low = (half.astype(np.float32) for half in halves.astype("<f2").T[:, :, None])
    quants = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], 1)
    dense = torch.tensor((scale * quants + low).reshape(shape))
    return Dense(dense.bfloat16() if weights == "bfloat16" else dense)


def build(torch, weights, tokens=1):
    functional, rng = torch.nn.functional, np.random.default_rng(0)
    layers = [
        {name: make_weight(torch, rng, shape, weights) for name, shape in WEIGHTS.items()}
        for _ in range(LAYERS)
    ]
    head = make_weight(torch, rng, (VOCAB, WIDTH), weights)
    shape = (LENGTH, KV_HEADS, DEPTH)
    caches = [
        [torch.tensor(rng.standard_normal(shape, dtype=np.float32)) for _ in range(2)]
        for _ in range(LAYERS)
    ]
    start = torch.tensor(rng.standard_normal((tokens, WIDTH), dtype=np.float32))
    place = torch.arange(tokens) if tokens > 1 else torch.tensor([PLACE])
    # A prompt fills the cache from its start: plain causal attention.
    seen = torch.arange(LENGTH) <= place[:, None] if tokens == 1 else None
    angles = torch.arange(DEPTH // 2) * 0.1  # of every token: the work is the same
    cos, sin = torch.cos(angles), torch.sin(angles)

    def turned(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def attend(layer, x, keys, values):
        parts = layer["qkv"].linear(x).view(tokens, -1, DEPTH)
        q, k, v = parts.split([HEADS, KV_HEADS, KV_HEADS], 1)
        keys.index_copy_(0, place, turned(k))
        values.index_copy_(0, place, v)
        q, k, v = (y.transpose(0, 1)[None] for y in (turned(q), keys, values))
        attend = functional.scaled_dot_product_attention
        y = attend(q, k, v, attn_mask=seen, is_causal=seen is None, enable_gqa=True)
        return layer["out"].linear(y[0].transpose(0, 1).reshape(tokens, -1))

    def forward(x):
        with torch.no_grad():
            for layer, (keys, values) in zip(layers, caches, strict=True):
                x = x + attend(layer, functional.rms_norm(x, (WIDTH,)), keys, values)
                gate, up = layer["expand"].linear(functional.rms_norm(x, (WIDTH,))).chunk(2, -1)
                x = x + layer["contract"].linear(functional.silu(gate) * up)
            return head.linear(functional.rms_norm(x[-1:], (WIDTH,)))

    step = torch.compile(forward) if torch.__name__ == "rushlight" else forward
    count = LAYERS * tokens * sum(rows * columns for rows, columns in WEIGHTS.values())
    flop = 2.0 * (count + VOCAB * WIDTH)
    unit = "bfloat16 flop" if weights == "bfloat16" else "flop"
    return Case(lambda: step(start), {"token": float(tokens), unit: flop}, tolerance=5e-2)
