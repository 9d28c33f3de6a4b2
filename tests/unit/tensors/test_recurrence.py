"""Recurrent layers: the loop equals the steps one by one, costs no more for more times, and has
second gradients."""

import itertools
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.engine.loops import run_loop
from rushlight.engine.realize import PROGRAMS
from rushlight.ops.time_loop import SAMPLE, loop_meaning
from rushlight.tensors.recurrence import GATES, RecurrentLayer, _by_steps

T, B, H = 5, 3, 4


def values(*shape, seed=0):
    array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(array).clone().requires_grad_()


def operands(mode, has_bias, projects, is_masked, features):
    gates = GATES[mode] * H
    state = [values(B, features, seed=6)] + ([values(B, H, seed=7)] if mode == "LSTM" else [])
    active = None
    if is_masked:
        lengths = torch.tensor([5, 3, 1])
        active = (torch.arange(T).unsqueeze(1) < lengths).unsqueeze(-1)
    return (
        active, values(T, B, gates, seed=1), values(gates, features, seed=2),
        values(gates, seed=3) if has_bias else None,
        values(features, H, seed=4) if projects else None, *state,
    )  # fmt: skip


def outputs_and_gradients(run, mode, backwards, given):
    found = run(mode, backwards, *given)
    output, *last = found if isinstance(found[0], torch.Tensor) and len(found) > 1 else found
    last = last[0] if isinstance(last[0], tuple) else last
    everything = [output, *last]
    loss = sum((x * values(*x.shape, seed=20 + i)).sum() for i, x in enumerate(everything))
    wanted = [x for x in given[1:] if x is not None]
    grads = torch.autograd.grad(loss, wanted)
    return [x.detach().numpy() for x in (*everything, *grads)]


CASES = [
    (mode, has_bias, projects, is_masked, backwards)
    for mode, has_bias, is_masked, backwards in itertools.product(
        GATES, (True, False), (True, False), (True, False)
    )
    for projects in ((False, True) if mode == "LSTM" else (False,))
]


@pytest.mark.parametrize("mode,has_bias,projects,is_masked,backwards", CASES)
def test_loop_equals_the_steps_one_by_one(mode, has_bias, projects, is_masked, backwards):
    given = operands(mode, has_bias, projects, is_masked, 2 if projects else H)

    def by_steps(mode, backwards, active, gates, w_hh, b_hh, w_hr, *state):
        return _by_steps(mode, backwards, active, gates, w_hh, b_hh, w_hr, state)

    loop = outputs_and_gradients(RecurrentLayer.apply, mode, backwards, given)
    steps = outputs_and_gradients(by_steps, mode, backwards, given)
    assert len(loop) == len(steps)
    for own, other in zip(loop, steps, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backwards", [False, True])
def test_compiled_loop_is_its_meaning(backwards):
    rng = np.random.default_rng(0)
    start, rows = (rng.standard_normal(shape).astype(np.float32) for shape in ((3,), (7, 3)))
    attrs = SAMPLE | {"backwards": backwards}
    np.testing.assert_array_equal(
        run_loop([start, rows], **attrs), loop_meaning([start, rows], **attrs)
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_more_times_need_no_more_programs(kind):
    layer = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True)

    def step(times):
        layer.zero_grad()
        layer(torch.ones(times, 2, 3))[0].sum().backward()
        return layer.weight_hh_l0.grad.sum().item()

    for times in (7, 11, 5):  # the first sights of a size give programs with variables
        step(times)
    before = PROGRAMS.compiled
    for times in (6, 30, 200):
        step(times)
    assert PROGRAMS.compiled == before


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_of_gradients_are_those_of_differences(kind):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(2, 2).double()
    x = torch.randn(3, 1, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], (x,))
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


def test_compiled_training_step_equals_the_eager_one():
    def train(compiled):
        torch.manual_seed(0)
        layer, head = torch.nn.LSTM(3, 4), torch.nn.Linear(4, 1)
        parameters = [*layer.parameters(), *head.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)

        def step(x):
            loss = (head(layer(x)[0]) - 1).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = torch.compile(step) if compiled else step
        batches = [torch.ones(6, 2, 3) * (i + 1) for i in range(4)]
        return [step(x).item() for x in batches]

    assert train(True) == train(False)


def test_cells_are_one_step_of_the_layers():
    x, h, c = values(1, 2, 3), values(2, 4, seed=1), values(2, 4, seed=2)
    lstm, cell = torch.nn.LSTM(3, 4), torch.nn.LSTMCell(3, 4)
    for own, other in zip(cell.parameters(), lstm.parameters(), strict=True):
        own.data = other.data
    _, (layer_h, layer_c) = lstm(x, (h.unsqueeze(0), c.unsqueeze(0)))
    cell_h, cell_c = cell(x[0], (h, c))
    torch.testing.assert_close(cell_h, layer_h[0])
    torch.testing.assert_close(cell_c, layer_c[0])


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_loop_runs_compiled_steps_and_is_never_interpreted(kind, monkeypatch):
    def interpret(*_):
        raise AssertionError("a step was interpreted")

    # Not by its dotted name: `rushlight.ops.time_loop` is also the record.
    monkeypatch.setattr(sys.modules["rushlight.ops.time_loop"], "interpret", interpret)
    layer = getattr(torch.nn, kind)(3, H, 2, bidirectional=True)
    layer(values(T, B, 3))[0].sum().backward()
    assert np.isfinite(layer.weight_hh_l0.grad.numpy()).all()
