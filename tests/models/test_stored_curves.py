"""Short trainings whose losses are stored as bits: they do not depend on threads, vectors, eager
or compiled, or on the day. A change of the canonical orders must change these numbers by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as torch

STORED = Path(__file__).with_name("curves.json")
F = torch.nn.functional


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x):
        tokens = (x * 3).round().long() % 11
        h = self.norm(self.embed(tokens))
        q, k, v = (t.view(-1, 8, 2, 8).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        h = h + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return self.head(F.gelu(h).mean(1))


class Convolution(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x.view(-1, 1, 2, 4)))), (1, 2))
        return self.head(x.mean((2, 3)))


MODELS = {"mlp": mlp, "attention": Attention, "convolution": Convolution}


def losses_of(name: str, compiled: bool) -> list[str]:
    torch.manual_seed(7)
    model = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    return [run().item().hex() for _ in range(12)]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", MODELS)
def test_losses_have_the_stored_bits(name, compiled):
    assert losses_of(name, compiled) == json.loads(STORED.read_text())[name]


if __name__ == "__main__":  # PYTHONPATH=. python tests/models/test_stored_curves.py
    found = {name: losses_of(name, False) for name in MODELS}
    STORED.write_text(json.dumps(found, indent=1) + "\n")
