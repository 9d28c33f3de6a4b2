"""Random modules with state, in random circumstances: compiled as without compile.

A module is a few random steps; between calls its state is loaded, moved, replaced or looked at. All
values, gradients, versions, states and random numbers must agree bit for bit.
"""

from __future__ import annotations

import random
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from tests.unit.tensors.compile_checks import array, own_bits

F = nn.functional
WIDTH, ROWS, WORDS = 4, 5, 6


def quietly(change):
    """A step that only changes buffers."""

    def step(m, h, index):
        with torch.no_grad():
            change(m, h, index)
        return h

    return step


def swap(m, h, index):
    before = m.buf.clone()
    m.buf.copy_(m.other)
    m.other.copy_(before)


def put(m, h, index):
    m.mat[index % 3] = h.detach()[:1].expand(len(index), WIDTH) * 0.1


STEPS = {
    "norm": lambda m, h, index: m.norm(h),
    "average": lambda m, h, index: m.average(h),
    "linear": lambda m, h, index: m.first(h).tanh(),
    "look up": lambda m, h, index: h + m.table(index),
    "in place": lambda m, h, index: (h * 1.5).add_(m.buf).relu_(),
    "through a view": lambda m, h, index: h + m.row.mul_(0.5),
    "count": lambda m, h, index: h / (m.count.add_(1) + 1),
    "drop": lambda m, h, index: F.dropout(h, 0.3, m.training),
    "rows by index": lambda m, h, index: h + m.mat[index % 3],
    "number": lambda m, h, index: h * m.other.fill_(m.scale),
    "data": lambda m, h, index: h + m.buf.data.add_(0.01),
    "histogram": lambda m, h, index: (
        h * m.seen.index_add_(0, index, torch.ones(ROWS))[index, None].log1p()
    ),
    "views": lambda m, h, index: h.view(-1).view(-1, WIDTH).t().contiguous().t(),
    "mode": lambda m, h, index: h * m.weight if m.training else h - m.weight,
    "average of rows": quietly(lambda m, h, index: m.buf.mul_(0.9).add_(h.mean(0), alpha=0.1)),
    "write a row": quietly(lambda m, h, index: m.mat[0].add_(h[0])),
    "write by index": quietly(put),
    "swap": quietly(swap),
    "copy": quietly(lambda m, h, index: m.other.copy_(m.buf)),
    "out": quietly(lambda m, h, index: torch.add(m.buf, 1.0, out=m.other)),
    "norm aside": quietly(lambda m, h, index: m.norm(h)),
    "weight": quietly(lambda m, h, index: m.weight.mul_(0.99)),
}
RESULTS = {
    "buffer": lambda m, h, x: m.buf,
    "row": lambda m, h, x: m.mat[0],
    "another": lambda m, h, x: m.first(x),
    "part of a parameter": lambda m, h, x: m.weight[1:],
    "part of the argument": lambda m, h, x: x[0],
    "without history": lambda m, h, x: h.sum(0).detach(),
}
BETWEEN = {
    "nothing": lambda m: None,
    "eval": lambda m: m.eval(),
    "train": lambda m: m.train(),
    "load": lambda m: m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}),
    "scale": lambda m: setattr(m, "scale", m.scale + 0.5),
    "other memory": lambda m: setattr(m.weight, "data", m.weight.data.clone()),
    "other buffer": lambda m: setattr(m, "other", m.other + 1),
    "look": lambda m: m.buf.tolist(),
}


class Random(nn.Module):
    def __init__(self, steps, results):
        super().__init__()
        self.steps, self.results, self.scale = steps, results, 2.0
        self.norm, self.average = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH, momentum=None)
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table, self.weight = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.ones(WIDTH))
        for name, size in (("buf", (WIDTH,)), ("other", (WIDTH,)), ("seen", (WORDS,))):
            self.register_buffer(name, torch.zeros(size))
        self.register_buffer("mat", torch.ones(3, WIDTH))
        self.register_buffer("row", self.mat[1])
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x, index):
        h = x
        for step in self.steps:
            h = STEPS[step](self, h, index)
        h = self.last(h)
        return [h, *[RESULTS[name](self, h, x) for name in self.results]]


def everything(tensors):
    return [(own_bits(t), t._version, t.requires_grad) for t in tensors]


def training_step(module, optimizer, call, args):
    optimizer.zero_grad()
    found = call(*args)
    sum((t.float() ** 2).sum() for t in found if t.requires_grad).backward()
    optimizer.step()
    return found


def run(steps, results, plan, how):
    """All that can be seen of the calls of `plan`. how: not compiled, the module, or the step."""
    torch.manual_seed(1)
    module = Random(steps, results)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    call = torch.compile(module) if how == "module" else module

    def step(x, index):
        outs = training_step(module, optimizer, module, (x, index))
        return [out.detach() for out in outs]

    whole = torch.compile(step) if how == "step" else step
    seen = []
    for turn, between in enumerate(plan):
        torch.manual_seed(turn)
        BETWEEN[between](module)
        rows, index = array(ROWS + 3, WIDTH, seed=turn), (torch.rand(ROWS) * WORDS).long()
        args = (rows[turn % 3 : turn % 3 + ROWS] if turn % 4 == 3 else rows[:ROWS].clone(), index)
        if how in ("module", "plain module"):
            outs = training_step(module, optimizer, call, args)
        else:
            outs = whole(*args)
        named = [*module.parameters(), *module.buffers(), torch.rand(2)]
        grads = [own_bits(p.grad) for p in module.parameters() if p.grad is not None]
        seen.append([turn, between, everything(outs), everything(named), grads])
    return seen, getattr(getattr(call, "_compiled", whole), "replays", 0)


@pytest.mark.parametrize("what", ["module", "step"])
@pytest.mark.parametrize("seed", range(5))
def test_random_modules(seed, what):
    pick = random.Random(seed)
    steps = pick.choices([*STEPS], k=pick.randint(2, 6))
    results = pick.choices([*RESULTS], k=pick.randint(0, 2))
    plan = [pick.choice([*BETWEEN, *["nothing"] * 8]) for _ in range(9)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, count = run(steps, results, plan, what)
        wanted, _ = run(steps, results, plan, f"plain {what}")
    for got, want in zip(found, wanted, strict=True):
        assert got == want, (steps, results)
    assert count >= 1, (steps, results, plan)
