"""transformers: Llama, BERT, T5, Whisper and others, scaled down."""

import tempfile
from functools import partial

import torch
from harness import fill, integers, numbers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

RTOL = {"llama_bfloat16": 2e-2}  # three digits: PyTorch's own kernels round in another order


def llama():
    config = LlamaConfig(
        vocab_size=101, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1,
        eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return fill(LlamaForCausalLM(config)).eval()


def mistral():
    config = MistralConfig(
        vocab_size=101, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, sliding_window=6,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return fill(MistralForCausalLM(config)).eval()


def bert_config(**more):
    return BertConfig(
        vocab_size=101, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, **more,
    )  # fmt: skip


def t5():
    config = T5Config(
        vocab_size=101, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    return fill(T5ForConditionalGeneration(config)).eval()


def whisper():
    config = WhisperConfig(
        vocab_size=101, num_mel_bins=16, d_model=48, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
        decoder_ffn_dim=96, max_source_positions=30, max_target_positions=32, dropout=0.0,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, decoder_start_token_id=3,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return fill(WhisperForConditionalGeneration(config)).eval()


def language_model(record, net):
    ids = integers(101, 2, 11, low=3)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    record.put("logits", net(ids).logits)
    record.put("padded", net(ids, attention_mask=mask).logits[1, 4:])
    loss = net.train()(ids, labels=ids).loss
    loss.backward()
    record.put("loss", loss)
    record.gradients(net)
    net.eval()
    out = net.generate(ids[:, :6], max_new_tokens=8, do_sample=False,
                       attention_mask=torch.ones_like(ids[:, :6]))  # fmt: skip
    record.put("greedy", out)


def case_llama(record):
    language_model(record, llama())


def case_mistral_sliding_window(record):
    language_model(record, mistral())


def case_llama_save_and_load(record):
    net, ids = llama(), integers(101, 1, 6, low=3)
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder, max_shard_size="60KB")
        again = LlamaForCausalLM.from_pretrained(folder).eval()
    record.put("logits", again(ids).logits)


def case_llama_bfloat16(record):
    net, ids = llama().to(torch.bfloat16), integers(101, 2, 7, low=3)
    record.put("logits", net(ids).logits.float())


def case_bert_masked(record):
    net, ids = fill(BertForMaskedLM(bert_config())).eval(), integers(101, 2, 9)
    kinds = integers(2, 2, 9, seed=1)
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    record.put("logits", net(ids, token_type_ids=kinds, attention_mask=mask).logits)


def case_bert_classification(record):
    net = fill(BertForSequenceClassification(bert_config(num_labels=3))).train()
    ids, labels = integers(101, 4, 9), integers(3, 4, seed=2)
    out = net(ids, labels=labels)
    out.loss.backward()
    record.put("loss", out.loss)
    record.put("logits", out.logits)
    record.gradients(net)


def case_t5(record):
    net, ids, labels = t5(), integers(101, 2, 9, low=2), integers(101, 2, 5, seed=3, low=2)
    out = net.train()(ids, labels=labels)
    out.loss.backward()
    record.put("loss", out.loss)
    record.put("logits", out.logits)
    record.gradients(net)
    net.eval()
    record.put("greedy", net.generate(ids, max_new_tokens=6, do_sample=False))
    record.put("beams", net.generate(ids, max_new_tokens=6, num_beams=2, do_sample=False))


def case_whisper(record):
    net, sound = whisper(), numbers(2, 16, 60)
    labels = integers(101, 2, 6, seed=4, low=4)
    out = net.train()(sound, labels=labels)
    out.loss.backward()
    record.put("loss", out.loss)
    record.put("logits", out.logits)
    record.gradients(net)
    net.eval()
    record.put("encoded", net.model.encoder(sound).last_hidden_state)
    generate = partial(net.generate, sound, max_new_tokens=6, do_sample=False)
    record.put("greedy", generate())
    record.put("no cache", generate(use_cache=False))
    record.put("beams", generate(num_beams=2))


def case_vit(record):
    config = ViTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        image_size=32, patch_size=8, num_labels=5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    net = fill(ViTForImageClassification(config)).train()
    out = net(numbers(2, 3, 32, 32), labels=integers(5, 2))
    out.loss.backward()
    record.put("loss", out.loss)
    record.put("logits", out.logits)
    record.gradients(net)
