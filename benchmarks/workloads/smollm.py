"""The sizes of SmolLM2-135M as users run them: `decode`'s model beside transformers on PyTorch.

Needs a Python with PyTorch and transformers (`--torch-python`). transformers keeps float32 or
bfloat16 weights; it is given bfloat16, the faster of the two. Weights are random, so values are
not compared here (`decode` compares them with the same model in plain PyTorch).
"""

import importlib

from workloads import Case, decode

TITLE = "SmolLM2-135M's sizes beside transformers on PyTorch (bfloat16)"
GOALS = {"4-bit": ">= 4", "bfloat16": ">= 2.5", "bfloat16, prompt": ">= 1.2"}


def cases():
    return {
        "4-bit": {"weights": "4-bit"},
        "bfloat16": {"weights": "bfloat16"},
        "bfloat16, prompt": {"weights": "bfloat16", "tokens": decode.PROMPT},
    }


def build(torch, weights, tokens=1):
    if torch.__name__ != "torch":
        return decode.build(torch, weights, tokens)
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=decode.VOCAB, hidden_size=decode.WIDTH, intermediate_size=decode.HIDDEN,
        num_hidden_layers=decode.LAYERS, num_attention_heads=decode.HEADS,
        num_key_value_heads=decode.KV_HEADS, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).bfloat16().eval()
    seen = decode.PLACE if tokens == 1 else 0
    codes = torch.randint(decode.VOCAB, (1, seen + tokens))
    cache = transformers.DynamicCache(config=config)

    def forward(codes):
        with torch.inference_mode():
            return model(codes, past_key_values=cache, logits_to_keep=1).logits

    def run():
        result = forward(codes[:, seen:])
        cache.crop(-tokens)  # each run sees as many tokens before it
        return result

    if seen:
        forward(codes[:, :seen])
    return Case(run, {"token": float(tokens)})
