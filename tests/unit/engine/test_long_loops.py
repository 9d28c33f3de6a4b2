"""A long loop that keeps its losses builds few programs and its memory stays flat."""

import pytest

import rushlight as torch
from rushlight.runtime.buffer import memory_allocated

nn = torch.nn


def loop(step, programs, calls, warm=100):
    """Run, keeping every loss; programs compiled, and growth of memory after the first calls."""
    losses, before, most = [], 0, 0
    compiled = programs.compiled
    for i in range(calls):
        losses.append(step())
        if i == warm:
            before = memory_allocated() - 64 * len(losses)
        if i > warm:
            most = max(most, memory_allocated() - 64 * len(losses) - before)
    assert losses[-1].item() < losses[0].item()
    return programs.compiled - compiled, most


def training(keeps_history=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(16, 8), torch.randn(16, 2)

    def step():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss if keeps_history else loss.detach()

    return step


@pytest.mark.parametrize(("keeps_history", "calls"), [(False, 1000), (True, 300)])
def test_eager_steps_that_keep_their_losses(fresh_programs, keeps_history, calls):
    """With `losses.append(loss)`, too: the history holds no memory once it was used."""
    step = training(keeps_history)
    step()
    step().item()
    built, growth = loop(step, fresh_programs, calls)
    assert built <= 3
    assert growth <= 16 << 10


def test_1000_replays_that_keep_their_losses(fresh_programs):
    run = torch.compile(training(), fullgraph=True)
    for _ in range(5):
        run()
    built, growth = loop(run, fresh_programs, 1000)
    assert built == 0 and run.replays >= 1000
    assert growth <= 16 << 10
