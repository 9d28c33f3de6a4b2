"""Optimizer updates that are repeated without their Python: when, when not, equal bits."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.devices import DEVICES
from rushlight.engine import realize
from rushlight.engine.programs import ProgramCache
from rushlight.engine.realize import LOCK
from rushlight.tensors import direct, repeat
from rushlight.tensors.direct import Direct

CASES = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"maximize": True}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("ASGD", {}),
    ("Rprop", {}),
    ("Adafactor", {}),
    ("Muon", {}),
]


class Counts:
    """updates: calls of `_update` on the optimizer itself; shadows: on placeholders; direct: runs
    that were not recorded; nodes: repeated by making nodes."""

    def __init__(self):
        self.updates = self.shadows = self.direct = self.nodes = 0

    def all(self):
        return (self.updates, self.shadows, self.direct, self.nodes)


@pytest.fixture
def counts(monkeypatch):
    seen = Counts()
    monkeypatch.setattr(DEVICES, "used", False)
    made, run, prepare = repeat._made, Direct.run, repeat.Recipe.run
    repeat_update = repeat.repeat_update

    def counting_update(optimizer, params, group):
        before = seen.shadows, seen.direct, seen.nodes
        repeat_update(optimizer, params, group)
        if before[1:] == (seen.direct, seen.nodes):
            seen.updates += 1

    def counting_made(*args):
        seen.shadows += 1
        return made(*args)

    def counting_run(self, storages):
        done = run(self, storages)
        seen.direct += done
        return done

    def counting_nodes(self, values):
        seen.nodes += 1
        return prepare(self, values)

    monkeypatch.setattr(torch, "repeat_update", counting_update, raising=False)
    monkeypatch.setattr(repeat, "_made", counting_made)
    monkeypatch.setattr(Direct, "run", counting_run)
    monkeypatch.setattr(repeat.Recipe, "run", counting_nodes)
    return seen


def make(name="SGD", options=None, count=2, seed=0):
    torch.manual_seed(seed)
    params = [torch.nn.Parameter(torch.randn(3, 4)) for _ in range(count)]
    assert params[-1].tolist()
    return params, getattr(torch.optim, name)(params, **{"lr": 0.05, **(options or {})})


def steps(params, optimizer, count=1, look=True):
    for step in range(count):
        for number, param in enumerate(params):
            param.grad = param.detach() * 0.5 + (step - number)
            if look:
                param.grad.tolist()
        optimizer.step()


def state_of(params, optimizer):
    """Every number and every version."""
    tensors = [*params, *(v for p in params for v in optimizer.state[p].values())]
    tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
    return [(t.tolist(), t._version) for t in tensors]


def ordinary(monkeypatch):
    monkeypatch.setattr(repeat, "_is_special", lambda optimizer: True)


@pytest.mark.parametrize("look", [True, False], ids=["computed", "pending"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_repeated_updates_have_the_bits_of_ordinary_ones(counts, monkeypatch, name, options, look):
    mine = make(name, options)
    steps(*mine, 5, look)
    assert counts.updates <= 1 + (options.get("momentum", 0) > 0), counts.all()
    assert counts.nodes >= 1, counts.all()
    # Some have states of equal values, which share their memory: never written over.
    assert counts.direct >= 2 or not look or name in ("NAdam", "ASGD"), counts.all()
    found = state_of(*mine)
    with monkeypatch.context() as patch:
        ordinary(patch)
        before = counts.all()[1:]
        others = make(name, options)
        steps(*others, 5, look)
        assert counts.all()[1:] == before
    assert found == state_of(*others)


def test_a_rate_is_read_again(counts, monkeypatch):
    def run():
        params, optimizer = make("AdamW")
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
        found = []
        for _ in range(5):
            steps(params, optimizer)
            schedule.step()
            found.append(state_of(params, optimizer))
        return found

    repeated = run()
    assert counts.direct >= 3
    ordinary(monkeypatch)
    assert repeated == run()


def test_another_answer_about_the_rate_is_another_update(counts, monkeypatch):
    class Stepper(torch.optim.SGD):
        def _update(self, params, group):
            if group["lr"] > 0.1:
                group = {**group, "lr": group["lr"] * 0.5}
            super()._update(params, group)

    def run():
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(3, 4))]
        optimizer = Stepper(params, lr=0.05)
        for rate in (0.05, 0.05, 0.06, 0.2, 0.3, 0.05, 0.08):
            optimizer.param_groups[0]["lr"] = rate
            steps(params, optimizer)
        return state_of(params, optimizer)

    repeated = run()
    assert counts.shadows == 3
    ordinary(monkeypatch)
    assert repeated == run()


CHANGES = {
    "option": lambda p, o: o.param_groups[0].update(weight_decay=0.5),
    "flag": lambda p, o: o.param_groups[0].update(maximize=True),
    "new option": lambda p, o: o.param_groups[0].update(other=1),
    "state": lambda p, o: o.state[p[0]].update(momentum_buffer=torch.ones(3, 4)),
    "state gone": lambda p, o: o.state.pop(p[0]),
    "loaded": lambda p, o: o.load_state_dict(copy.deepcopy(o.state_dict())),
    "frozen": lambda p, o: p[1].requires_grad_(False),
    "data": lambda p, o: setattr(p[0], "data", torch.ones(3, 4)),
    "in place": lambda p, o: p[0].data.mul_(2),
    "copied": lambda p, o: p[0].detach().copy_(torch.ones(3, 4)),
    "numpy": lambda p, o: p[0].detach().numpy().fill(3.0),
    "state in place": lambda p, o: o.state[p[0]]["momentum_buffer"].mul_(3),
    "group": lambda p, o: o.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]}),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_is_changed_between_steps_counts(counts, monkeypatch, kind):
    def run():
        params, optimizer = make("SGD", {"momentum": 0.9})
        steps(params, optimizer, 4)
        CHANGES[kind](params, optimizer)
        steps(params, optimizer, 3)
        return state_of(params, optimizer)

    repeated = run()
    assert counts.direct >= 2
    ordinary(monkeypatch)
    assert repeated == run()


def test_a_gradient_that_is_missing_or_comes_back(counts, monkeypatch):
    def run():
        params, optimizer = make("Adam")
        for turn in range(8):
            for param in params:
                param.grad = param.detach() * 0.5
            if turn in (3, 4):
                params[1].grad = None
            optimizer.step()
        return state_of(params, optimizer)

    repeated = run()
    ordinary(monkeypatch)
    assert repeated == run()


@pytest.mark.parametrize("kind", ["param", "state", "other"])
def test_a_gradient_in_the_memory_of_another_tensor(counts, monkeypatch, kind):
    """It changes while the update runs."""

    def run():
        params, optimizer = make("SGD", {"momentum": 0.9, "weight_decay": 0.1})
        steps(params, optimizer, 4)
        for _ in range(2):
            if kind == "param":
                params[0].grad = params[0].detach()
            elif kind == "state":
                params[0].grad = optimizer.state[params[0]]["momentum_buffer"].detach()
            else:
                params[0].grad = params[1].grad = params[0].grad.detach()
            optimizer.step()
        return state_of(params, optimizer)

    repeated = run()
    ordinary(monkeypatch)
    assert repeated == run()


def test_a_gradient_of_another_kind(counts, monkeypatch):
    def run():
        params, optimizer = make("SGD")
        steps(params, optimizer, 4)
        big = torch.arange(24.0).reshape(4, 6)
        params[0].grad = big[:3, :4]  # a view
        params[1].grad = torch.from_numpy(np.full((3, 4), 2.0, np.float32))  # memory of others
        optimizer.step()
        optimizer.step()
        return state_of(params, optimizer)

    repeated = run()
    ordinary(monkeypatch)
    assert repeated == run()


def test_a_rate_or_an_option_that_is_a_tensor_is_never_repeated(counts):
    rate = torch.full((), 0.5)
    params = [torch.nn.Parameter(torch.ones(2))]
    optimizer = torch.optim.SGD(params, lr=rate)
    for want in (0.5, 0.0, -1.0):
        params[0].grad = torch.ones(2)
        optimizer.step()
        assert params[0].tolist() == [want] * 2
        rate.mul_(1 if want == 0.5 else 2)
    assert counts.direct == counts.nodes == 0 and counts.updates == 3


def test_options_that_change_at_every_step_end_the_tries(counts, monkeypatch):
    def run():
        params, optimizer = make("SGD", {"momentum": 0.5})
        for turn in range(12):
            optimizer.param_groups[0]["momentum"] = 0.5 + turn / 100
            steps(params, optimizer)
        return state_of(params, optimizer)

    repeated = run()
    assert counts.shadows == repeat.MOST_TRIES
    ordinary(monkeypatch)
    assert repeated == run()


def test_a_change_now_and_then_does_not_end_the_tries(counts):
    params, optimizer = make("SGD", {"momentum": 0.5})
    for turn in range(2 * repeat.MOST_TRIES):
        optimizer.param_groups[0]["momentum"] = 0.5 + turn / 100
        steps(params, optimizer, 4)
    assert counts.shadows == 2 * repeat.MOST_TRIES + 1
    assert counts.direct >= 4 * repeat.MOST_TRIES


def test_programs_of_another_cache_are_not_used(counts, monkeypatch):
    params, optimizer = make("SGD")
    steps(params, optimizer, 3)
    before = counts.direct
    monkeypatch.setattr(realize, "PROGRAMS", ProgramCache())
    steps(params, optimizer, 2)
    assert counts.direct == before and counts.nodes >= 3


def test_special_states_are_ordinary(counts, monkeypatch):
    params, optimizer = make("SGD")
    steps(params, optimizer, 3)
    before = counts.direct
    with torch.autograd.set_detect_anomaly(True):
        steps(params, optimizer)
    with torch.autocast("cpu", torch.bfloat16):
        steps(params, optimizer)
    with torch.explain():
        steps(params, optimizer)
    with monkeypatch.context() as patch:
        patch.setattr(DEVICES, "used", True)
        steps(params, optimizer)
    assert counts.direct == before and counts.updates == 4
    steps(params, optimizer)
    assert counts.direct == before + 1


def test_differentiable_steps_keep_their_history(counts):
    w = torch.ones(2, requires_grad=True)
    param = (w * 2).requires_grad_()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, differentiable=True)
    optimizer.param_groups[0]["params"] = [param]
    for _ in range(2):
        param.grad = w * 3
        optimizer.step()
    param.sum().backward()
    assert w.grad.tolist() == pytest.approx([2 - 0.6] * 2)
    assert counts.shadows == 0 and counts.updates >= 1


@pytest.mark.filterwarnings("error")
def test_a_captured_step_is_captured():
    def run(wrap):
        params, optimizer = make("AdamW")

        def step():
            for param in params:
                param.grad = param.detach() * 0.5
            optimizer.step()

        steps(params, optimizer, 2)
        step = wrap(step)
        for rate in (0.05, 0.05, 0.2, 0.01):
            optimizer.param_groups[0]["lr"] = rate
            step()
        steps(params, optimizer, 2)
        return state_of(params, optimizer)

    assert run(torch.compile) == run(lambda step: step)


def test_who_sees_an_old_value_keeps_it(counts):
    """Pending values, saved values, arrays, views, detached tensors, copies that share memory."""
    params, optimizer = make("SGD", {"momentum": 0.9})
    steps(params, optimizer, 3)
    param, state = params[0], optimizer.state[params[0]]["momentum_buffer"]
    value, before = param.tolist(), state.tolist()
    for each in params:
        each.grad = torch.randn(3, 4)
        assert each.grad.tolist()
    array = np.array(param.detach())
    pending, clone = param.detach() * 2, param.detach().clone()
    momentum = state.clone()
    loss = (param * param).sum()
    seen, row = param.detach(), param[1]
    before_step = counts.direct
    optimizer.step()
    assert counts.direct == before_step + 1
    assert pending.tolist() == [[2 * v for v in r] for r in value]
    assert clone.tolist() == array.tolist() == value and momentum.tolist() == before
    assert param.tolist() != value
    assert seen.tolist() == param.tolist() and row.tolist() == param.tolist()[1]
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()


def test_gradients_are_not_kept_alive_and_not_changed(counts):
    params, optimizer = make("AdamW")
    steps(params, optimizer, 3)
    held = params[0].grad
    numbers = held.tolist()
    gone = weakref.ref(params[1].grad)
    optimizer.zero_grad()
    gc.collect()
    assert gone() is None and held.tolist() == numbers
    memory = [params[0]._storage.node.buffer.address]
    for _ in range(3):
        steps(params, optimizer)
        memory.append(params[0]._storage.node.buffer.address)
    assert counts.direct >= 3 and len(set(memory)) == 1  # updated where it is


def test_optimizers_that_go_take_their_updates_along(counts):
    params, optimizer = make("SGD")
    steps(params, optimizer, 3)
    gone, count = weakref.ref(params[0]), len(repeat._KNOWN)
    del params, optimizer
    gc.collect()
    assert gone() is None and len(repeat._KNOWN) == count - 1


def test_parameters_that_share_their_memory_are_ordinary(counts, monkeypatch):
    def run():
        torch.manual_seed(0)
        first = torch.nn.Parameter(torch.randn(4))
        second = torch.nn.Parameter(first.detach())
        optimizer = torch.optim.SGD([first, second], lr=0.1, weight_decay=0.1)
        for _ in range(3):
            first.grad, second.grad = torch.ones(4), torch.ones(4)
            optimizer.step()
        return state_of([first, second], optimizer)

    repeated = run()
    assert counts.direct == counts.nodes == 0
    ordinary(monkeypatch)
    assert repeated == run()


def test_an_error_in_the_run_changes_nothing(counts, monkeypatch):
    params, optimizer = make("SGD", {"momentum": 0.9})
    steps(params, optimizer, 3)
    before = state_of(params, optimizer)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(direct, "run_at", fail)
        with pytest.raises(MemoryError):
            optimizer.step()
    assert state_of(params, optimizer) == before
    optimizer.step()
    assert state_of(params, optimizer) != before


def test_an_update_that_may_fail_is_recorded(counts):
    """Its error must name the line and leave other values alone, as any other."""

    class Picking(torch.optim.SGD):
        def _update(self, params, group):
            for param in params:
                rows = (param.grad[:, 0] > 0).long()
                param.add_(param.detach()[rows], alpha=-0.1)

    params = [torch.nn.Parameter(torch.ones(3, 4))]
    optimizer = Picking(params, lr=0.1)
    steps(params, optimizer, 4)
    assert counts.direct == 0 and counts.nodes >= 1


def test_hooks_of_steps_and_closures_run(counts):
    params, optimizer = make("SGD")
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("pre"))
    optimizer.register_step_post_hook(lambda *_: seen.append("post"))
    steps(params, optimizer, 3)
    loss = optimizer.step(lambda: seen.append("closure") or 7)
    assert seen == ["pre", "post"] * 3 + ["pre", "closure", "post"] and loss == 7
    assert counts.direct >= 2


def test_an_update_is_alone(counts, monkeypatch):
    params, optimizer = make("SGD")
    steps(params, optimizer, 3)
    run, free = direct.run_at, []

    def meanwhile(*args):
        thread = threading.Thread(target=lambda: free.append(LOCK.acquire(blocking=False)))
        thread.start()
        thread.join()
        return run(*args)

    monkeypatch.setattr(direct, "run_at", meanwhile)
    steps(params, optimizer, 1)
    assert free == [False]


def test_two_threads_step_their_optimizers(counts):
    def run(seed, found):
        params, optimizer = make("AdamW", seed=seed)
        steps(params, optimizer, 25)
        found[seed] = state_of(params, optimizer)

    alone, together = {}, {}
    for seed in range(2):
        run(seed, alone)
    threads = [threading.Thread(target=run, args=(seed, together)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == together


def test_groups_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(DEVICES, "used", False)  # where other tests used one, nothing is repeated
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(5):
        weight.grad = torch.ones(3)
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    assert len(repeat._KNOWN[optimizer]) <= 2
