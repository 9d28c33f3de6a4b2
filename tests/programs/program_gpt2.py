"""transformers: GPT-2, scaled down."""

import tempfile

import torch
from harness import fill, integers
from transformers import GPT2Config, GPT2LMHeadModel


def model() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=97, n_positions=64, n_embd=48, n_layer=2, n_head=4, bos_token_id=1,
        eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return fill(GPT2LMHeadModel(config)).eval()


def case_forward(record):
    net, ids = model(), integers(97, 2, 11)
    out = net(ids, output_hidden_states=True)
    record.put("logits", out.logits)
    record.put("hidden", out.hidden_states[1])
    mask = torch.ones_like(ids)
    mask[0, 7:] = 0
    record.put("masked", net(ids, attention_mask=mask).logits[0, :7])


def case_backward(record):
    net, ids = model().train(), integers(97, 2, 11)
    loss = net(ids, labels=ids).loss
    loss.backward()
    record.put("loss", loss)
    record.gradients(net)


def case_training(record):
    net = model().train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    losses = []
    for step in range(4):
        ids = integers(97, 2, 12, seed=step)
        loss = net(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    record.put("losses", losses)


def case_generate(record):
    net, ids = model(), integers(97, 2, 5)
    for name, options in {
        "greedy": {}, "no cache": {"use_cache": False}, "beams": {"num_beams": 3},
        "penalty": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    }.items():  # fmt: skip
        out = net.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0,
                           attention_mask=torch.ones_like(ids), **options)  # fmt: skip
        record.put(name, out)


def case_sample(record):
    """Sampling draws from streams of our own: only shape and range are the same."""
    net, ids = model(), integers(97, 2, 5)
    torch.manual_seed(0)
    out = net.generate(ids, max_new_tokens=8, do_sample=True, top_k=10, top_p=0.9, temperature=0.7,
                       pad_token_id=0, attention_mask=torch.ones_like(ids))  # fmt: skip
    record.put("starts", out[:, :5])
    record.put("in range", bool(((out >= 0) & (out < 97)).all()))


def case_save_and_load(record):
    net, ids = model(), integers(97, 1, 6)
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        again = GPT2LMHeadModel.from_pretrained(folder).eval()
    record.put("logits", again(ids).logits)
    record.put("same", bool(torch.equal(again(ids).logits, net(ids).logits)))
