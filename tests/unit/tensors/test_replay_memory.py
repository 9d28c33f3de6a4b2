"""A replay writes where values were; what somebody else holds of them stays as it was."""

import gc
import threading

import numpy as np
import pytest

import rushlight as torch


def setup(rows=16):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.ReLU(), torch.nn.Linear(40, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, step, torch.arange(rows * 24).reshape(rows, 24) % 11 / 10.0


def warm(step, x):
    compiled = torch.compile(step, fullgraph=True)
    for _ in range(10):
        compiled(x)
        if compiled.replays >= 2:
            break
    assert compiled.replays >= 2
    return compiled


HOLDERS = {
    "the tensor": lambda t: t,
    "a detached one": lambda t: t.detach(),
    "a view": lambda t: t.view(-1),
    "a copy that waits": lambda t: t.detach().clone(),
    "a computed copy": lambda t: (t.detach().clone(), t.sum().item())[0],
    "a tensor that took its value": lambda t: torch.empty_like(t).detach().copy_(t.detach()),
    "data": lambda t: t.data,
    "a value that reads it": lambda t: t.detach() * 1,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_of_a_gradient(name):
    model, _, step, x = setup()
    compiled = warm(step, x)
    grads = [HOLDERS[name](p.grad) for p in model.parameters()]
    if name == "a value that reads it":
        expected = [p.grad.numpy().copy() for p in model.parameters()]
    else:
        expected = [np.array(g.tolist()) for g in grads]
    for _ in range(3):
        compiled(x)
    for grad, before, p in zip(grads, expected, model.parameters(), strict=True):
        np.testing.assert_array_equal(np.array(grad.tolist()).reshape(before.shape), before)
        assert p.grad.flatten().tolist() != before.flatten().tolist()


SHARED = ["a detached one", "a view", "data", "the tensor"]


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_of_a_weight(name):
    """What shares the weight's memory by PyTorch's rules sees the new value, a copy the old one."""
    model, _, step, x = setup()
    compiled = warm(step, x)
    weight = model[0].weight
    held = HOLDERS[name](weight)
    before = weight.flatten().tolist()
    for _ in range(3):
        compiled(x)
    now = weight.flatten().tolist()
    assert before != now
    assert held.flatten().tolist() == (now if name in SHARED else before)


def test_losses_that_are_kept_stay():
    _, _, step, x = setup()
    _, _, plain, _ = setup()
    compiled = torch.compile(step)
    losses = [compiled(x) for _ in range(200)]
    assert [loss.item() for loss in losses] == [plain(x).item() for _ in range(200)]


def test_bits_are_those_of_the_eager_step_whatever_is_held_in_between():
    model, optimizer, step, x = setup()
    other, _, plain, _ = setup()
    compiled = torch.compile(step)
    kept = []
    for number in range(24):
        assert compiled(x).item() == plain(x).item()
        if number % 3 == 0:
            kept.append([p.grad for p in model.parameters()])
        if number % 4 == 1:
            kept.append(model[0].weight.detach().clone())
        if number % 5 == 2:
            kept.append(optimizer.state[model[0].weight]["exp_avg"].detach().clone() + 1)
        if number % 7 == 3:
            model[0].weight.detach().numpy()  # from now on visible outside
        if number % 6 == 5:
            kept.clear()
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            assert a.tolist() == b.tolist() and a.grad.tolist() == b.grad.tolist()


def test_a_weight_that_numpy_sees_is_seen_changing():
    model, _, step, x = setup()
    compiled = warm(step, x)
    seen = model[0].weight.detach().numpy()
    for _ in range(3):
        compiled(x)
        assert seen.tolist() == model[0].weight.tolist()


def test_versions_count_as_in_eager():
    model, _, step, x = setup()
    other, _, plain, _ = setup()
    compiled = torch.compile(step)
    for _ in range(6):
        compiled(x)
        plain(x)
    versions = [p._version for p in model.parameters()]
    assert versions == [p._version for p in other.parameters()]


def test_gradients_that_add_up_over_calls():
    model, optimizer, _, x = setup()
    other, _, _, _ = setup()

    def step_of(model):
        def step(x):
            model(x).square().mean().backward()

        return step

    compiled, plain = torch.compile(step_of(model)), step_of(other)
    for number in range(9):
        compiled(x)
        plain(x)
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            assert a.grad.tolist() == b.grad.tolist()
        if number == 5:
            model.zero_grad()
            other.zero_grad()
    assert optimizer.state == {}


def test_results_that_are_inputs_or_one_another():
    state = torch.zeros(6)

    @torch.compile
    def step(x):
        old = state * 1
        state.add_(x)
        new = state * 2
        return old, new, new, state, x, {"view": new[1:3]}

    plain = torch.zeros(6)
    for number in range(8):
        x = torch.full((6,), float(number))
        old, new, again, out, given, views = step(x)
        assert old.tolist() == plain.tolist()
        plain.add_(x)
        assert new.tolist() == again.tolist() == (plain * 2).tolist()
        assert out is state and given is x
        assert views["view"].tolist() == (plain * 2)[1:3].tolist()
        assert state.tolist() == plain.tolist()
        new.add_(1)
        assert again.tolist() == new.tolist()


def test_two_threads_replay_one_function():
    model, _, step, x = setup()
    other, _, plain, _ = setup()
    compiled = warm(step, x)
    for _ in range(5):
        plain(x)
    threads = [threading.Thread(target=lambda: [compiled(x) for _ in range(50)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(150):
        plain(x)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert a.tolist() == b.tolist()


def test_arguments_of_other_kinds_take_the_long_way():
    @torch.compile
    def f(x, y):
        return x * 2 + y

    for _ in range(4):
        assert f(torch.ones(3), torch.ones(3)).tolist() == [3, 3, 3]
    assert f.replays >= 2
    x = torch.ones(3)
    for _ in range(4):
        assert f(x, x).tolist() == [3, 3, 3]
        assert f(torch.ones(3), 2.0).tolist() == [4, 4, 4]
        assert f(torch.ones(6)[::2], torch.ones(3)).tolist() == [3, 3, 3]
        assert f(torch.from_numpy(np.ones(3, np.float32)), torch.ones(3)).tolist() == [3, 3, 3]
        assert f(torch.ones(3) + 0, torch.ones(3)).tolist() == [3, 3, 3]
        assert f(torch.ones(3, dtype=torch.float64), torch.ones(3)).dtype is torch.float64
        assert f(torch.ones(3, requires_grad=True), torch.ones(3)).requires_grad
        assert f(torch.ones(3), y=torch.ones(3)).tolist() == [3, 3, 3]
        with torch.no_grad():
            assert f(torch.ones(3), torch.ones(3)).tolist() == [3, 3, 3]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert f(torch.ones(3), torch.ones(3)).tolist() == [3, 3, 3]


def test_memory_does_not_grow():
    _, _, step, x = setup()
    compiled = warm(step, x)
    gc.collect()
    compiled(x)
    before = torch.memory_allocated() if hasattr(torch, "memory_allocated") else None
    for _ in range(50):
        compiled(x)
    if before is not None:
        assert torch.memory_allocated() <= before + (1 << 16)
