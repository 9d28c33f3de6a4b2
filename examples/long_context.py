"""Train a GPT on texts of 16 thousand tokens, many documents in each, with little memory.

A token sees only what is before it in its own document: `flex_attention` with a mask of blocks, so
attention costs what the documents cost and not the square of the length. The fused loss never holds
whole logits, and each layer is computed again in the backward pass instead of being kept.

    python examples/long_context.py                      # 16384 tokens a step
    python examples/long_context.py --length 65536       # longer: memory grows with the length
    python examples/long_context.py --steps 3 --length 512 --width 32 --heads 2    # a quick look

The tokens are the bytes of the help topics that every CPython carries; each topic is a document.
It prints the loss, tokens per second, the part of the pairs that attention looks at, and the
highest memory of the process. Shapes in comments: B batch, T time, C width, H heads.
"""

import rushlight as torch  # isort: skip

import argparse
import importlib
import json
import pydoc_data.topics
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

F = torch.nn.functional
flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
checkpoint = importlib.import_module(f"{torch.__name__}.utils.checkpoint").checkpoint

# -------------------------------------------------------------------------------------------- data


class Documents:
    """Bytes of all documents in one row, and the number of each byte's document."""

    def __init__(self, texts: list[str]):
        codes = [np.frombuffer(text.encode(), np.uint8) for text in texts]
        self.tokens = np.concatenate(codes).astype(np.int64)
        self.numbers = np.repeat(np.arange(len(codes)), [len(code) for code in codes])

    def cut(self, length: int, step: int):
        """(tokens 1 T, targets 1 T, numbers T) of piece `step`; a document's last byte has no
        target."""
        pieces = max(1, (len(self.tokens) - 1) // length)
        at = (np.arange(length) + step % pieces * length) % (len(self.tokens) - 1)
        same = self.numbers[at] == self.numbers[at + 1]
        targets = np.where(same, self.tokens[at + 1], -100)
        rows = (self.tokens[at], targets, self.numbers[at])
        tokens, targets, numbers = (torch.from_numpy(row.copy()) for row in rows)
        return tokens.unsqueeze(0), targets.unsqueeze(0), numbers


def topics() -> list[str]:
    found = pydoc_data.topics.topics
    return [found[name] for name in sorted(found)]


def document_mask(numbers):
    """Each query sees the keys before it in its own document."""
    length = len(numbers)

    def seen(b, h, q, kv):
        return (q >= kv) & (numbers[q] == numbers[kv])

    return flex.create_block_mask(seen, None, None, length, length, device="cpu")


# ------------------------------------------------------------------------------------------- model


class Block(torch.nn.Module):
    """Attention, then an MLP; each on a normalized input, each added to the stream."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)
        self.expand = torch.nn.Linear(width, 4 * width)
        self.contract = torch.nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, t, c = x.shape
        parts = self.qkv(self.norm_1(x)).split(c, dim=2)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = flex.flex_attention(q, k, v, score_mod=nearer, block_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.contract(F.gelu(self.expand(self.norm_2(x))))


def nearer(score, b, h, q, kv):
    """Far keys count less, in each head at another rate: this is how the model knows order."""
    return score + (kv - q) * torch.exp2(-2.0 * (h + 1))


class Model(torch.nn.Module):
    """Bytes in (B T), the mean loss of the next byte out. The embedding is also the last layer."""

    def __init__(self, layers: int, width: int, heads: int):
        super().__init__()
        self.bytes = torch.nn.Embedding(256, width)
        torch.nn.init.normal_(self.bytes.weight, std=0.1)
        self.blocks = torch.nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, tokens, targets, mask):
        x = self.bytes(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False)
        x = self.norm(x).flatten(0, 1)
        options = torch.nn.LinearCrossEntropyOptions()
        return F.linear_cross_entropy(x, self.bytes.weight, targets.flatten(), options=options)


# ---------------------------------------------------------------------------------------- training


def peak_megabytes() -> float:
    """Highest resident memory of this process; not on every system."""
    resource = importlib.import_module("resource")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def train(args) -> dict:
    torch.manual_seed(args.seed)
    documents, model = Documents(topics()), Model(args.layers, args.width, args.heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters, {args.length:,} tokens a step, {len(documents.tokens):,} in all")
    losses, sparsity, began = [], [], time.perf_counter()
    for step in (bar := tqdm(range(args.steps), disable=args.quiet, unit="step")):
        tokens, targets, numbers = documents.cut(args.length, step)
        mask = document_mask(numbers)
        optimizer.zero_grad()
        loss = model(tokens, targets, mask)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        sparsity.append(mask.sparsity())
        rate = len(losses) * args.length / (time.perf_counter() - began)
        bar.set_postfix_str(
            f"loss {losses[-1]:.3f}, {rate:,.0f} tokens/s, {peak_megabytes():,.0f} MB"
        )
    return {
        "losses": losses,
        "tokens_per_second": rate,
        "looked_at_percent": 100.0 - sum(sparsity) / len(sparsity),
        "peak_mb": peak_megabytes(),
    }


def parse(argv: list[str] | None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, default=20, help="updates")
    add("--length", type=int, default=16384, help="tokens of one step")
    add("--layers", type=int, default=4)
    add("--width", type=int, default=128)
    add("--heads", type=int, default=4)
    add("--lr", type=float, default=2e-3, help="learning rate")
    add("--seed", type=int, default=1)
    add("--out", type=Path, help="a file for the numbers, as JSON")
    add("--quiet", action="store_true", help="no progress bar")
    args = parser.parse_args(argv)
    for name in ("steps", "length", "layers", "width", "heads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(args, name)}")
    if args.width % args.heads:
        parser.error(f"--width {args.width} must be a multiple of --heads {args.heads}")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    found = train(args)
    print(
        f"loss {found['losses'][0]:.3f} -> {found['losses'][-1]:.3f}, "
        f"{found['tokens_per_second']:,.0f} tokens/s; attention looked at "
        f"{found['looked_at_percent']:.1f} % of the pairs; "
        f"highest memory {found['peak_mb']:,.0f} MB"
    )
    if args.out:
        args.out.write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
