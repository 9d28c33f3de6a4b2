"""lightning and accelerate: training loops, checkpoints, logging, bfloat16; peft on a Llama."""

import tempfile
from pathlib import Path

import accelerate
import lightning.pytorch as pl
import peft
import torch
from accelerate.state import AcceleratorState
from harness import fill, integers, numbers
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM

RTOL = {"lightning_bf16": 3e-2, "accelerate_bf16": 3e-2}


class Lit(pl.LightningModule):
    def __init__(self, hidden=16, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 3))
        self.seen = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, prog_bar=True)
        self.seen.append(loss.item())
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler}}


def loader():
    return DataLoader(TensorDataset(numbers(64, 8), integers(3, 64)), batch_size=16)


def quiet(**options):
    return pl.Trainer(accelerator="cpu", devices=1, enable_progress_bar=False,
                      enable_model_summary=False, log_every_n_steps=1, **options)  # fmt: skip


def fit(record, precision):
    folder = tempfile.mkdtemp()
    model, data = fill(Lit()), loader()
    best = ModelCheckpoint(dirpath=folder, monitor="val_loss", save_last=True)
    trainer = quiet(max_epochs=3, logger=CSVLogger(folder), precision=precision,
                    callbacks=[best, EarlyStopping("val_loss"), LearningRateMonitor()],
                    gradient_clip_val=1.0, accumulate_grad_batches=2)  # fmt: skip
    trainer.fit(model, data, data)
    record.put("losses", model.seen)
    record.put("validation", float(trainer.validate(model, data, verbose=False)[0]["val_loss"]))
    again = Lit.load_from_checkpoint(best.best_model_path)
    record.put("hyperparameters", [again.hparams.hidden, again.hparams.lr])
    found = trainer.predict(again, DataLoader(numbers(6, 8, seed=1), batch_size=4))
    record.put("predictions", torch.cat(found).float())
    more = quiet(max_epochs=4, logger=False, enable_checkpointing=False)
    more.fit(again, data, data, ckpt_path=str(Path(folder) / "last.ckpt"))
    record.put("resumed", [more.current_epoch, more.global_step, again.seen[-1]])


def case_lightning(record):
    fit(record, "32-true")


def case_lightning_bf16(record):
    fit(record, "bf16-mixed")


def accelerated(record, precision):
    AcceleratorState._reset_state()
    loop = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2,
                                  mixed_precision=precision)  # fmt: skip
    model = fill(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)
    model, optimizer, data, scheduler = loop.prepare(model, optimizer, loader(), scheduler)
    losses = []
    for _ in range(2):
        for x, y in data:
            with loop.accumulate(model):
                loss = F.cross_entropy(model(x), y)
                loop.backward(loss)
                if loop.sync_gradients:
                    loop.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(loop.gather(loss.detach()).mean().item())
    folder = tempfile.mkdtemp()
    loop.save_state(folder)
    loop.load_state(folder)
    record.put("losses", losses)
    record.put("rate", scheduler.get_last_lr())


def case_accelerate(record):
    accelerated(record, "no")


def case_accelerate_bf16(record):
    accelerated(record, "bf16")


def llama():
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2)  # fmt: skip
    return fill(LlamaForCausalLM(config))


def adapted(record, config):
    ids = integers(64, 2, 12)
    model = fill(peft.get_peft_model(llama(), config))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer, losses = torch.optim.AdamW(trained, lr=1e-2), []
    for _ in range(3):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    record.put("losses", losses)
    model.save_pretrained(tempfile.mkdtemp())
    model.eval()
    with torch.no_grad():
        record.put("adapted", model(input_ids=ids).logits)
        record.put("merged", model.merge_and_unload()(input_ids=ids).logits)


def case_peft_lora(record):
    adapted(record, peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0,
                                    target_modules=["q_proj", "v_proj"]))  # fmt: skip


def case_peft_dora(record):
    adapted(record, peft.LoraConfig(task_type="CAUSAL_LM", r=2, use_dora=True, lora_dropout=0.0,
                                    target_modules=["q_proj"]))  # fmt: skip
