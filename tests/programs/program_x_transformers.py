"""x-transformers: train and generate, with several of its options."""

import torch
from harness import fill, integers, numbers
from x_transformers import (
    AutoregressiveWrapper,
    ContinuousTransformerWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    XTransformer,
)


def decoder(**options):
    net = TransformerWrapper(num_tokens=61, max_seq_len=32,
                             attn_layers=Decoder(dim=32, depth=2, heads=2, **options))  # fmt: skip
    return fill(net)


def train(record, net, name, length=12):
    model = AutoregressiveWrapper(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(3):
        loss = model(integers(61, 2, length, seed=step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    record.put(f"{name} losses", losses)
    model.eval()
    out = model.generate(integers(61, 2, 4), 6, temperature=0.0, cache_kv=True)
    record.put(f"{name} generated", out)


def case_plain(record):
    train(record, decoder(), "plain")


def case_rotary_and_flash(record):
    train(record, decoder(rotary_pos_emb=True, attn_flash=True, use_rmsnorm=True), "rotary")


def case_alibi_and_glu(record):
    train(record, decoder(alibi_pos_bias=True, ff_glu=True, attn_one_kv_head=True), "alibi")


def case_relative_bias(record):
    train(record, decoder(rel_pos_bias=True, sandwich_norm=True, attn_qk_norm=True), "t5 bias")


def case_encoder(record):
    net = TransformerWrapper(num_tokens=61, max_seq_len=16, attn_layers=Encoder(
        dim=32, depth=2, heads=2, use_scalenorm=True))  # fmt: skip
    fill(net).eval()
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[0, 7:] = False
    record.put("logits", net(integers(61, 2, 10), mask=mask))


def case_continuous(record):
    layers = Encoder(dim=32, depth=1, heads=2)
    net = ContinuousTransformerWrapper(dim_in=6, dim_out=5, max_seq_len=16, attn_layers=layers)
    fill(net)
    out = net(numbers(2, 9, 6))
    out.square().mean().backward()
    record.put("out", out)
    record.gradients(net)


def case_encoder_decoder(record):
    net = fill(XTransformer(dim=32, enc_num_tokens=61, enc_depth=1, enc_heads=2, enc_max_seq_len=16,
                            dec_num_tokens=61, dec_depth=1, dec_heads=2, dec_max_seq_len=16,
                            tie_token_emb=True))  # fmt: skip
    loss = net(integers(61, 2, 8), integers(61, 2, 8, seed=1))
    loss.backward()
    record.put("loss", loss)
    record.gradients(net)
