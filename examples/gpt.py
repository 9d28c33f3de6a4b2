"""Train a small GPT on the text that every CPython carries, then let it write.

The whole job uses the public API only; put `import torch` for the import line below and the same
file runs on PyTorch (whose flex_attention has no gradient on a CPU, so there with causal attention
only). It trains a character-level GPT of about one million parameters, compares its validation loss
with 3-gram and 4-gram count models of the same split, saves and loads a checkpoint, samples text
with a key/value cache, and draws the loss curve.

    python examples/gpt.py                   # about a minute on two cores
    python examples/gpt.py --resume          # go on after Ctrl-C or a kill, to the same loss bits
    python examples/gpt.py --attention window    # or document, alibi: what a character sees
    python examples/gpt.py --loss fused      # the last layer and its loss without whole logits
    python examples/gpt.py --steps 20 --layers 1 --width 32 --heads 2     # a quick look

Shapes in comments: B batch, T time, C width, H heads, D width of a head, V vocabulary.
"""

import rushlight as torch  # isort: skip

import argparse
import functools
import importlib
import json
import math
import os
import pydoc_data.topics
import signal
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

F = torch.nn.functional

# --------------------------------------------------------------------------------------- attention

ATTENTIONS = ("causal", "window", "document", "alibi")


def flex():
    """The module of flex_attention; the framework need not have it for causal attention."""
    return importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")


@functools.cache
def fixed_mask(length: int, window: int):
    """Each query sees the `window` keys up to its own."""

    def seen(b, h, q, kv):
        return (q >= kv) & (q - kv < window)

    return flex().create_block_mask(seen, None, None, length, length, device="cpu")


def document_mask(tokens, newline: int):
    """Each query sees the keys before it in its own document: an empty line ends one."""
    b, t = tokens.shape
    ends = (tokens[:, 1:] == newline) & (tokens[:, :-1] == newline)
    number = F.pad(ends.cumsum(1), (1, 0))

    def seen(b, h, q, kv):
        return (q >= kv) & (number[b, q] == number[b, kv])

    return flex().create_block_mask(seen, b, None, t, t, device="cpu")


def alibi(heads: int, pos: int):
    """Scores fall with the distance, in each head at another rate; queries begin at `pos`."""
    slopes = torch.exp2(torch.arange(1, heads + 1) * (-8.0 / heads))
    return lambda score, b, h, q, kv: score + slopes[h] * (kv - q - pos)


# ------------------------------------------------------------------------------------------- model


def rotate(x, turns):
    """Turn the pairs (x[i], x[i + D/2]) by their position: then q . k depends on the distance."""
    cos, sin = turns
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(torch.nn.Module):
    """Causal self-attention. With a cache it reads one position and attends to the ones before.

    `mask`: which of them, as a BlockMask (None: all); with a cache those from `since` on.
    """

    def __init__(self, width: int, heads: int, dropout: float, kind: str):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x, turns, mask=None, cache=None, pos: int = 0, since: int = 0):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in (q, k, v)
        )  # each BHTD
        bend = None
        if self.kind == "alibi":
            bend = alibi(self.heads, pos - since)
        else:
            q, k = rotate(q, turns), rotate(k, turns)
        if cache is not None:
            keys, values = cache
            keys[:, :, pos : pos + t] = k
            values[:, :, pos : pos + t] = v
            k, v = keys[:, :, since : pos + t], values[:, :, since : pos + t]
        if mask is None and bend is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        else:
            y = flex().flex_attention(q, k, v, score_mod=bend, block_mask=mask)
        return self.dropout(self.proj(y.transpose(1, 2).reshape(b, t, c)))


class Block(torch.nn.Module):
    """Attention, then an MLP; each on a normalized input, each added to the stream."""

    def __init__(self, width: int, heads: int, dropout: float, kind: str):
        super().__init__()
        self.norm_1 = torch.nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout, kind)
        self.norm_2 = torch.nn.LayerNorm(width)
        self.expand = torch.nn.Linear(width, 4 * width)
        self.contract = torch.nn.Linear(4 * width, width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x, turns, mask=None, cache=None, pos: int = 0, since: int = 0):
        x = x + self.attention(self.norm_1(x), turns, mask, cache, pos, since)
        return x + self.dropout(self.contract(F.gelu(self.expand(self.norm_2(x)))))


class GPT(torch.nn.Module):
    """Characters in (BT), logits of the next character out (BTV).

    kind: one of ATTENTIONS; a window is a quarter of a block. newline: its code, for documents.
    """

    def __init__(
        self, vocab: int, block: int, layers: int, heads: int, width: int, dropout=0.0,
        kind: str = "causal", newline: int = 0,
    ):  # fmt: skip
        super().__init__()
        self.block, self.heads, self.width = block, heads, width
        self.kind, self.newline, self.window = kind, newline, max(1, block // 4)
        self.characters = torch.nn.Embedding(vocab, width)
        self.blocks = torch.nn.ModuleList(
            [Block(width, heads, dropout, kind) for _ in range(layers)]
        )
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocab, bias=False)
        self.init_weights(layers)

        depth = width // heads
        rates = 100.0 ** (-torch.arange(0, depth, 2) / depth)
        angles = torch.arange(block).unsqueeze(1) * torch.cat((rates, rates))
        self.register_buffer("cos", angles.cos(), persistent=False)  # TD
        self.register_buffer("sin", angles.sin(), persistent=False)

    def init_weights(self, layers: int) -> None:
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # The two layers that write to the residual stream start smaller, so that its
                # variance does not grow with depth.
                writes = name.endswith(("proj.weight", "contract.weight"))
                torch.nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if writes else 0.1)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(p)

    def forward(self, tokens, caches=None, pos: int = 0, since: int = 0):
        """`since`: with caches, where the document of these tokens begins."""
        return self.head(self.hidden(tokens, caches, pos, since))

    def hidden(self, tokens, caches=None, pos: int = 0, since: int = 0):
        """What the last layer gets, BTC."""
        end = pos + tokens.shape[1]
        turns = self.cos[pos:end], self.sin[pos:end]
        if caches is not None and self.kind == "window":
            since = max(since, end - self.window)
        mask = self.mask(tokens) if caches is None else None
        x = self.characters(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, turns, mask, None if caches is None else caches[i], pos, since)
        return self.norm(x)

    def loss(self, tokens, targets, fused: bool):
        """Mean nats per character. Fused, no more than a few rows of logits are alive at once."""
        if fused:
            x = self.hidden(tokens).flatten(0, 1)
            options = torch.nn.LinearCrossEntropyOptions()
            return F.linear_cross_entropy(x, self.head.weight, targets.flatten(), options=options)
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def mask(self, tokens):
        """What the queries of these tokens see; None stands for all keys before them."""
        if self.kind == "document":
            return document_mask(tokens, self.newline)
        if self.kind == "causal":
            return None
        length = tokens.shape[1]
        return fixed_mask(length, self.window if self.kind == "window" else length)

    def new_caches(self, batch: int = 1):
        """Room for the keys and values of one block of positions, per layer.

        One position more than is used, so that the used part is a slice at every length.
        """
        shape = (batch, self.heads, self.block + 1, self.width // self.heads)
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in self.blocks]


# -------------------------------------------------------------------------------------------- data


class Corpus:
    """A text as character codes, cut at a fixed place: the last tenth is for validation."""

    def __init__(self, text: str):
        self.chars = sorted(set(text))
        code_of = {c: i for i, c in enumerate(self.chars)}
        codes = np.array([code_of[c] for c in text], dtype=np.int64)
        cut = len(codes) * 9 // 10
        self.train, self.val = codes[:cut], codes[cut:]
        self.newline = code_of.get("\n", 0)

    def decode(self, codes) -> str:
        return "".join(self.chars[i] for i in codes)


def load_text(path: str | None) -> str:
    """The given file, or the help topics of Python itself in sorted order."""
    if path:
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SystemExit(f"--text {path}: {error}") from None
    topics = pydoc_data.topics.topics
    return "".join(topics[name] for name in sorted(topics))


def windows(codes: np.ndarray, starts: np.ndarray, block: int):
    """Inputs and targets (both BT) of the windows that begin at `starts`."""
    at = starts[:, None] + np.arange(block + 1)
    both = codes[at]
    return torch.from_numpy(both[:, :-1].copy()), torch.from_numpy(both[:, 1:].copy())


def batches_per_epoch(codes: np.ndarray, args) -> int:
    return (len(codes) - 1 - args.block) // args.block // args.batch


def train_batch(codes: np.ndarray, args, step: int):
    """Batch number `step`: a function of the seed and the step, so nothing needs to be remembered.

    Each epoch cuts the text into windows at another offset and visits all of them once.
    """
    per_epoch = batches_per_epoch(codes, args)
    epoch, index = divmod(step, per_epoch)
    rng = np.random.default_rng([args.seed, epoch])
    offset = rng.integers(args.block)
    order = rng.permutation(per_epoch * args.batch)
    starts = offset + args.block * order[index * args.batch : (index + 1) * args.batch]
    return windows(codes, starts, args.block)


# ------------------------------------------------------------------------------------ count models


def ngram_loss(train: np.ndarray, val: np.ndarray, n: int, vocab: int) -> float:
    """Mean nats per character of an n-gram count model with Witten-Bell interpolation.

    p(c | h) = (count(h c) + kinds(h) * p(c | h shortened)) / (count(h) + kinds(h)), where kinds(h)
    is the number of different characters seen after h; the chain ends in the uniform distribution.
    """
    p = np.full(len(val), 1.0 / vocab)
    text = np.concatenate([train[len(train) - (n - 1) :], val])
    for order in range(1, n + 1):
        seen, counts = np.unique(_gram_codes(train, order, vocab), return_counts=True)
        # The grams that end at each validation character.
        asked = _gram_codes(text[n - order :], order, vocab)
        histories, where = np.unique(seen // vocab, return_inverse=True)
        totals = np.bincount(where, weights=counts)
        kinds = np.bincount(where)
        count = _look_up(seen, counts, asked)
        total = _look_up(histories, totals, asked // vocab)
        kind = _look_up(histories, kinds, asked // vocab)
        p = np.where(total > 0, (count + kind * p) / np.maximum(total + kind, 1), p)
    return float(-np.log(p).mean())


def _gram_codes(codes: np.ndarray, order: int, vocab: int) -> np.ndarray:
    grams = np.zeros(len(codes) - order + 1, dtype=np.int64)
    for i in range(order):
        grams = grams * vocab + codes[i : len(codes) - order + 1 + i]
    return grams


def _look_up(keys: np.ndarray, values: np.ndarray, asked: np.ndarray) -> np.ndarray:
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[at] == asked, values[at], 0)


# ---------------------------------------------------------------------------------------- training


def new_model(corpus: Corpus, args, dropout: float = 0.0) -> GPT:
    return GPT(
        len(corpus.chars), args.block, args.layers, args.heads, args.width, dropout,
        args.attention, corpus.newline,
    )  # fmt: skip


def lr_scale(args):
    """Linear warm-up, then a cosine down to a twentieth: the factor on --lr at a step."""
    warmup = max(1, min(args.warmup, args.steps // 2))

    def scale(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, args.steps - warmup))
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done))

    return scale


class Trainer:
    """The model with all that must survive a restart: optimizer, schedule, losses, random state."""

    def __init__(self, corpus: Corpus, args):
        torch.manual_seed(args.seed)
        self.corpus, self.args, self.losses = corpus, args, []
        self.model = new_model(corpus, args, args.dropout)
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [
            {"params": matrices, "weight_decay": args.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lr_scale(args))
        self.update = torch.compile(self._update) if args.compile else self._update

    def _update(self, x, y):
        self.optimizer.zero_grad()
        loss = self.model.loss(x, y, self.args.loss == "fused")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.optimizer.step()
        return loss.detach()

    def step(self) -> float:
        x, y = train_batch(self.corpus.train, self.args, len(self.losses))
        loss = self.update(x, y).item()
        self.scheduler.step()
        self.losses.append(loss)
        return loss

    def validate(self, batches: int | None = None) -> float:
        """Mean nats per character over the validation text, in windows that do not overlap."""
        codes, block = self.corpus.val, self.args.block
        starts = np.arange(0, len(codes) - block, block)
        chunks = [starts[i : i + self.args.batch] for i in range(0, len(starts), self.args.batch)]
        total = count = 0.0
        self.model.eval()
        with torch.no_grad():
            for chunk in chunks[:batches]:
                x, y = windows(codes, chunk, block)
                loss = self.model.loss(x, y, self.args.loss == "fused")
                total += loss.item() * len(chunk)
                count += len(chunk)
        self.model.train()
        return total / max(count, 1)

    def save(self, path: Path) -> None:
        """Write beside, then rename: a kill at any moment leaves a whole checkpoint."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "rng": torch.get_rng_state(),
            "step": len(self.losses),
            "losses": list(self.losses),
            "args": vars(self.args),
        }
        beside = path.with_suffix(".tmp")
        with open(beside, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def restore(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.losses = list(state["losses"])
        torch.set_rng_state(state["rng"])


class StopRequest:
    """Ctrl-C or a polite kill asks the loop to stop after this step; a second Ctrl-C stops now."""

    def __init__(self):
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number, frame):
        self.asked = True
        signal.signal(number, signal.default_int_handler)


def train(trainer: Trainer, checkpoint: Path, stop: StopRequest) -> float:
    """Run the steps that are left; gives the seconds this took."""
    args = trainer.args
    tokens_per_step = args.batch * args.block
    first, began = len(trainer.losses), time.perf_counter()
    bar = tqdm(total=args.steps, initial=first, disable=args.quiet, unit="step", mininterval=0.5)
    with bar:
        while len(trainer.losses) < args.steps and not stop.asked:
            loss = trainer.step()
            done = len(trainer.losses)
            rate = (done - first) * tokens_per_step / (time.perf_counter() - began)
            bar.set_postfix_str(f"loss {loss:.3f}, {rate:,.0f} tokens/s", refresh=False)
            bar.update()
            if args.ckpt_every and done % args.ckpt_every == 0 and done < args.steps:
                trainer.save(checkpoint)
            if args.eval_every and done % args.eval_every == 0 and done < args.steps:
                val = trainer.validate(args.eval_batches)
                bar.write(f"step {done}: validation loss {val:.3f} ({args.eval_batches} batches)")
    return time.perf_counter() - began


# ---------------------------------------------------------------------------------------- sampling


def sample(model: GPT, corpus: Corpus, prompt: str, length: int, temperature: float, show) -> str:
    """Write `length` characters after `prompt`, one position at a time through the cache.

    Every position goes the same way, so all lengths share one program: it also draws a character
    where the text already has one, and that draw is not used. When the cache is full, it is filled
    again with the newer half of its text.
    """
    code_of = {c: i for i, c in enumerate(corpus.chars)}
    text = [code_of[c] for c in prompt if c in code_of] or [0]
    end = len(text) + length
    model.eval()
    with torch.no_grad():
        caches, start, pos = model.new_caches(), 0, 0
        while len(text) < end:
            if pos == model.block:
                start, pos = start + model.block - model.block // 2, 0
                caches = model.new_caches()
            since = document_start(text, start, pos, corpus) if model.kind == "document" else 0
            logits = model(torch.tensor([[text[start + pos]]]), caches, pos, since=since)
            drawn = torch.multinomial(F.softmax(logits[0, -1] / temperature, dim=-1), 1).item()
            pos += 1
            if start + pos == len(text):
                text.append(drawn)
                show(corpus.chars[drawn])
    model.train()
    return corpus.decode(text[end - length :])


def document_start(text: list[int], start: int, pos: int, corpus: Corpus) -> int:
    """The position behind the last empty line, as document_mask has it, counted from `start`."""
    for at in range(start + pos, start, -1):
        if text[at] == text[at - 1] == corpus.newline:
            return at - start
    return 0


# ------------------------------------------------------------------------------------------ curves


def smooth(losses: list[float], points: int) -> np.ndarray:
    """The mean of each of `points` equal parts (fewer where there are fewer losses)."""
    parts = np.array_split(np.asarray(losses), min(points, len(losses)))
    return np.array([part.mean() for part in parts])


def sketch(losses: list[float], columns: int = 64, rows: int = 8) -> str:
    """The loss curve in block characters, eight levels to a row."""
    curve = smooth(losses, columns)
    low, high = float(curve.min()), float(curve.max())
    heights = np.rint((curve - low) / max(high - low, 1e-9) * (rows * 8 - 1)).astype(int) + 1
    lines = []
    for row in reversed(range(rows)):
        cells = "".join(" ▁▂▃▄▅▆▇█"[min(max(h - 8 * row, 0), 8)] for h in heights)
        label = high if row == rows - 1 else low if row == 0 else None
        lines.append(f"{'' if label is None else f'{label:.2f}':>6} │{cells}")
    lines.append(f"{'':>6} └{'─' * len(curve)} step {len(losses)}")
    return "\n".join(lines)


def draw(losses: list[float], levels: dict[str, float], out: Path) -> Path:
    """Write the loss curve with named horizontal lines: a PNG, or an SVG without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        path = out / "loss.svg"
        path.write_text(_svg(losses, levels), encoding="utf-8")
        return path
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(
        xlabel="step", ylabel="nats per character", title="A small GPT, character by character"
    )
    axes.plot(range(1, len(losses) + 1), losses, linewidth=0.8, label="training loss")
    for i, (name, level) in enumerate(levels.items()):
        axes.axhline(level, color=f"C{i + 1}", linestyle="--", label=f"{name}: {level:.3f}")
    axes.legend()
    path = out / "loss.png"
    figure.savefig(path, dpi=130)
    return path


def _svg(losses: list[float], levels: dict[str, float]) -> str:
    curve = smooth(losses, 600)
    top = max(float(curve.max()), *levels.values())
    bottom = min(float(curve.min()), *levels.values()) - 0.1

    def y(value: float) -> float:
        return 20 + 360 * (top - value) / (top - bottom)

    points = " ".join(
        f"{60 + 700 * i / max(len(curve) - 1, 1):.1f},{y(v):.1f}" for i, v in enumerate(curve)
    )
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 420" font-family="sans-serif">',
        '<rect width="800" height="420" fill="white"/>',
        '<path d="M60 20V380H760" fill="none" stroke="black"/>',
        f'<polyline points="{points}" fill="none" stroke="steelblue"/>',
        f'<text x="4" y="24">{top:.2f}</text><text x="4" y="384">{bottom:.2f}</text>',
        f'<text x="620" y="405">step {len(losses)}</text><text x="60" y="405">nats</text>',
    ]
    for name, level in levels.items():
        at = y(level)
        parts.append(f'<path d="M60 {at:.1f}H760" stroke="gray" stroke-dasharray="6 4"/>')
        parts.append(f'<text x="540" y="{at - 4:.1f}">{name}: {level:.3f}</text>')
    return "\n".join([*parts, "</svg>\n"])


# -------------------------------------------------------------------------------------------- main


def new_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train a small GPT and let it write.")
    add = parser.add_argument
    add("--steps", type=int, default=400, help="updates in all")
    add("--batch", type=int, default=16, help="windows per update")
    add("--block", type=int, default=128, help="characters per window")
    add("--layers", type=int, default=5)
    add("--heads", type=int, default=4)
    add("--width", type=int, default=128)
    add("--dropout", type=float, default=0.0)
    add("--attention", choices=ATTENTIONS, default="causal", help="what a character sees")
    add("--loss", choices=("plain", "fused"), default="plain", help="with or without whole logits")
    add("--lr", type=float, default=3e-3, help="highest learning rate")
    add("--warmup", type=int, default=40, help="updates of linear warm-up")
    add("--weight-decay", type=float, default=0.1)
    add("--clip", type=float, default=1.0, help="bound on the norm of the gradient")
    add("--seed", type=int, default=1)
    add("--text", help="a text file to learn instead of Python's help topics")
    add("--out", default="out/gpt", help="folder of the checkpoint and the curve")
    add("--ckpt-every", type=int, default=100, help="updates between checkpoints (0: never)")
    add("--eval-every", type=int, default=0, help="updates between validations (0: at the end)")
    add("--eval-batches", type=int, default=4, help="batches of a validation on the way")
    add("--sample", type=int, default=400, help="characters to write at the end")
    add("--temperature", type=float, default=0.8)
    add("--compile", action="store_true", help="compile the whole update with torch.compile")
    add("--resume", action="store_true", help="go on from the checkpoint in --out")
    add("--quiet", action="store_true", help="no progress bar")
    return parser


AT_LEAST_ONE = ("steps", "batch", "block", "layers", "heads", "width")


def parse(argv: list[str] | None):
    parser = new_parser()
    args = parser.parse_args(argv)
    for name in AT_LEAST_ONE:
        if getattr(args, name) < 1:
            parser.error(f"--{name} {getattr(args, name)}: at least 1 is needed")
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} is not a multiple of 2 * --heads {args.heads}")
    if args.temperature <= 0:
        parser.error(f"--temperature {args.temperature}: a number above 0 is needed")
    if args.compile and args.attention == "document":
        parser.error("--attention document makes a mask of each batch: leave out --compile")
    return args


# A resumed run takes these from the command line and all others from the checkpoint.
OF_THIS_RUN = ("out", "ckpt_every", "eval_every", "eval_batches", "sample", "temperature")
OF_THIS_RUN += ("compile", "resume", "quiet")


def given_options(argv: list[str] | None) -> dict:
    """The options that stand in the command line, without the defaults of the others."""
    parser = new_parser()
    names = vars(parser.parse_args([]))
    given = parser.parse_args(argv, argparse.Namespace(**dict.fromkeys(names)))
    return {name: value for name, value in vars(given).items() if value is not None}


def resumed_args(args, given: dict, saved: dict):
    """The arguments of the run that wrote the checkpoint, so that the bits stay the same."""
    for name, value in saved.items():
        if name in OF_THIS_RUN:
            continue
        if given.get(name, value) != value:
            option = "--" + name.replace("_", "-")
            raise SystemExit(
                f"{option} {given[name]}: the checkpoint in {args.out} was made with {option}"
                f" {value}. Leave the option out to go on with that, or take another --out."
            )
        setattr(args, name, value)
    return args


def report(trainer: Trainer) -> dict[str, float]:
    """Validation losses of the model and of the count models, printed side by side."""
    corpus = trainer.corpus
    vocab = len(corpus.chars)
    levels = {"GPT": trainer.validate()}
    for n in (3, 4):
        levels[f"{n}-gram"] = ngram_loss(corpus.train, corpus.val, n, vocab)
    print("\nvalidation loss, nats per character (count models: Witten-Bell interpolation)")
    for name, level in levels.items():
        print(f"  {name:<7} {level:.4f}")
    return levels


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    out = Path(args.out)
    checkpoint = out / "checkpoint.pt"
    saved = None
    if args.resume:
        if not checkpoint.exists():
            print(f"nothing to resume: {checkpoint} does not exist", file=sys.stderr)
            return 2
        saved = torch.load(checkpoint)
        args = resumed_args(args, given_options(argv), saved["args"])

    corpus = Corpus(load_text(args.text))
    if batches_per_epoch(corpus.train, args) < 1 or len(corpus.val) <= args.block:
        raise SystemExit("the text is too short for one batch: take a smaller --batch or --block")
    out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(corpus, args)
    if saved is not None:
        trainer.restore(saved)
    count = sum(p.numel() for p in trainer.model.parameters())
    print(
        f"{count:,} parameters; {len(corpus.train):,} characters to learn, {len(corpus.val):,} to"
        f" validate, {len(corpus.chars)} different; starts at step {len(trainer.losses)}"
    )

    stop = StopRequest()
    seconds = train(trainer, checkpoint, stop)
    trainer.save(checkpoint)
    if len(trainer.losses) < args.steps:
        print(
            f"\nstopped after step {len(trainer.losses)} of {args.steps}; saved in {checkpoint}."
            ' The same command with --resume goes on (make demo ARGS="--resume").'
        )
        return 130
    print(f"trained to step {args.steps} in {seconds:.1f} s; last loss {trainer.losses[-1]:.4f}")
    levels = report(trainer)

    # The model that writes is the one that was saved, read back from the file.
    loaded = torch.load(checkpoint)
    writer = new_model(corpus, args)
    writer.load_state_dict(loaded["model"])
    window = torch.tensor(corpus.val[: args.block]).unsqueeze(0)
    with torch.no_grad():
        same = torch.equal(writer.eval()(window), trainer.model.eval()(window))
    print(f"\nthe checkpoint gives the same logits, bit for bit: {same}")
    print(f"\n{args.sample} characters from the checkpoint, at temperature {args.temperature}:\n")
    began = time.perf_counter()
    sample(writer, corpus, "\n", args.sample, args.temperature, lambda c: print(c, end=""))
    print(f"\n\nwritten in {time.perf_counter() - began:.1f} s\n")

    print(sketch(trainer.losses))
    picture = draw(trainer.losses, levels, out)
    summary = {"seconds": seconds, "losses": trainer.losses, "validation": levels}
    (out / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    print(f"\ncurve: {picture}   checkpoint: {checkpoint}   numbers: {out / 'summary.json'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
