"""transformers: more families of models: forward, backward, generation; its Trainer."""

import tempfile

import torch
import transformers as T
from harness import fill, integers, numbers

SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4)  # fmt: skip
GROUPED = dict(**SMALL, num_key_value_heads=2)
SPECIAL = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)


def check(record, model, **inputs):
    model = fill(model).eval()
    out = model(**inputs)
    found = out.logits if hasattr(out, "logits") else out[0]
    record.put("out", found)
    found.float().pow(2).mean().backward()
    record.gradients(model)


def text(record, kind, config, mask=True, writes=False):
    ids = integers(60, 2, 12, low=5)
    seen = torch.ones_like(ids)
    seen[1, 9:] = 0
    model = kind(config)
    check(record, model, input_ids=ids, **({"attention_mask": seen} if mask else {}))
    if writes:
        with torch.no_grad():
            record.put("written", model.generate(ids[:1, :5], max_new_tokens=5, do_sample=False,
                                                 pad_token_id=0, eos_token_id=None))  # fmt: skip


def case_gemma2(record):
    config = T.Gemma2Config(**GROUPED, head_dim=8, sliding_window=6)
    text(record, T.Gemma2ForCausalLM, config, writes=True)


def case_qwen2(record):
    text(record, T.Qwen2ForCausalLM, T.Qwen2Config(**GROUPED), writes=True)


def case_mixtral(record):
    config = T.MixtralConfig(**GROUPED, num_local_experts=4)
    text(record, T.MixtralForCausalLM, config)


def case_bloom(record):
    config = T.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)
    text(record, T.BloomForCausalLM, config)


def case_mamba(record):
    config = T.MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4)
    text(record, T.MambaForCausalLM, config, mask=False, writes=True)


def case_roberta(record):
    text(record, T.RobertaForSequenceClassification, T.RobertaConfig(**SMALL, num_labels=3))


def case_deberta(record):
    config = T.DebertaV2Config(**SMALL, relative_attention=True, position_buckets=8,
                               pos_att_type=["p2c", "c2p"], share_att_key=True)  # fmt: skip
    text(record, T.DebertaV2ForSequenceClassification, config)


def case_modernbert(record):
    config = T.ModernBertConfig(**SMALL, **SPECIAL, cls_token_id=1, sep_token_id=2,
                                local_attention=6)  # fmt: skip
    text(record, T.ModernBertForMaskedLM, config)


def case_bart(record):
    config = T.BartConfig(vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1,
                          encoder_attention_heads=4, decoder_attention_heads=4,
                          encoder_ffn_dim=48, decoder_ffn_dim=48)  # fmt: skip
    ids = integers(60, 2, 8, low=5)
    check(record, T.BartForConditionalGeneration(config), input_ids=ids, decoder_input_ids=ids)


def case_clip(record):
    words = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                 num_attention_heads=4, **SPECIAL)  # fmt: skip
    images = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                  num_attention_heads=4, image_size=16, patch_size=8)  # fmt: skip
    model = fill(T.CLIPModel(T.CLIPConfig(text_config=words, vision_config=images,
                                          projection_dim=16))).eval()  # fmt: skip
    out = model(input_ids=integers(60, 2, 6, low=5), pixel_values=numbers(2, 3, 16, 16),
                return_loss=True)  # fmt: skip
    out.loss.backward()
    record.put("loss", out.loss)
    record.put("scores", out.logits_per_image)
    record.gradients(model)


def case_wav2vec2(record):
    config = T.Wav2Vec2Config(hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
                              intermediate_size=48, conv_dim=(16, 16), conv_stride=(4, 2),
                              conv_kernel=(8, 4), num_feat_extract_layers=2, vocab_size=12,
                              num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
                              feat_extract_norm="layer", mask_time_prob=0.0)  # fmt: skip
    check(record, T.Wav2Vec2ForCTC(config), input_values=numbers(2, 400))


def case_trainer(record):
    config = T.DistilBertConfig(vocab_size=64, dim=32, hidden_dim=48, n_layers=1, n_heads=4,
                                dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0,
                                num_labels=2)  # fmt: skip
    model = fill(T.DistilBertForSequenceClassification(config))
    rows = [{"input_ids": integers(60, 8, low=5, seed=i), "labels": i % 2} for i in range(8)]
    options = T.TrainingArguments(
        output_dir=tempfile.mkdtemp(), num_train_epochs=2, per_device_train_batch_size=4,
        learning_rate=1e-3, report_to=[], use_cpu=True, logging_steps=1, disable_tqdm=True,
        save_strategy="no", lr_scheduler_type="constant", train_sampling_strategy="sequential",
    )  # fmt: skip
    trainer = T.Trainer(model=model, args=options, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    record.put("losses", [e["loss"] for e in trainer.state.log_history if "loss" in e])
    record.put("evaluation", trainer.evaluate()["eval_loss"])
    record.put("predictions", trainer.predict(rows).predictions)
