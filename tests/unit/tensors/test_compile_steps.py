"""Whole training steps: compiled ones replay, and give the bits of eager ones."""

import pytest

import rushlight as torch
from rushlight.engine.checks import PLAIN_TIMES
from tests.unit.tensors.compile_checks import array, check_equal

nn = torch.nn


def mlp(dropout=0.0):
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3))


def training(model, optimizer, scheduler=None, clip=None, inputs=(5, 6), accumulate=1):
    x, y = array(*inputs, seed=1), array(inputs[0], 3, seed=2)

    def step():
        optimizer.zero_grad()
        for _ in range(accumulate):
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
        if clip:
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        else:
            norm = None
        optimizer.step()
        return loss.detach(), norm

    def run():
        out = compiled()
        if scheduler is not None:
            scheduler.step()
        return out

    compiled = step
    return step, run, lambda: [p.detach().clone() for p in model.parameters()]


def loop(build, calls=9, replays=5):
    """`build()` gives (step, after, state): `after` runs outside of the compiled step."""
    ends = []
    for compiled in (False, True):
        torch.manual_seed(3)
        step, after, state = build()
        run = torch.compile(step, fullgraph=True) if compiled else step
        results = []
        for i in range(calls):
            out = run()
            results.append([t.tolist() for t in out if t is not None])
            after(i)
        ends.append((results, [t.tolist() for t in state()], torch.rand(2).tolist()))
        if compiled:
            assert run.replays >= replays, (run.captures, run.replays)
    assert ends[0] == ends[1]
    return run


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step_with_scheduler_replays(name):
    def build():
        model = mlp(dropout=0.3)
        optimizer = OPTIMIZERS[name](model.parameters())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        step, _, state = training(model, optimizer)
        return step, lambda i: scheduler.step(), state

    run = loop(build)
    assert run.captures <= 4


def test_learning_rate_read_by_user_code_is_guarded():
    """A step that branches on the rate must see the branch change."""

    def build():
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = array(5, 6)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            if optimizer.param_groups[0]["lr"] < 0.05:
                loss = loss * 2
            loss.backward()
            optimizer.step()
            return (loss.detach(),)

        def after(i):
            optimizer.param_groups[0]["lr"] = 0.1 if i < 5 else 0.01

        return step, after, lambda: [p.detach() for p in model.parameters()]

    loop(build, calls=9, replays=2)


def test_clipping_accumulation_and_groups_replay():
    def build():
        model = mlp()
        groups = [{"params": model[0].parameters(), "lr": 0.02}, {"params": model[3].parameters()}]
        optimizer = torch.optim.AdamW(groups, lr=0.01)
        step, _, state = training(model, optimizer, clip=0.1, accumulate=2)
        return step, lambda i: None, state

    loop(build)


def test_gradients_kept_between_calls_accumulate():
    def build():
        model = mlp()
        x = array(5, 6)

        def step():
            loss = model(x).square().mean()
            loss.backward()
            return (loss.detach(),)

        def after(i):
            if i % 4 == 3:
                model.zero_grad()

        return step, after, lambda: [p.grad for p in model.parameters() if p.grad is not None]

    loop(build, calls=14, replays=6)


def test_gradient_replaced_from_outside_is_seen():
    def build():
        weight = nn.Parameter(array(3))

        def step():
            (weight * 2).sum().backward()
            return ()

        def after(i):
            weight.grad = torch.full((3,), float(i))

        return step, after, lambda: [weight.grad]

    loop(build, calls=8, replays=4)


def test_batch_norm_and_train_eval_switch():
    def build():
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3))  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        x, y = array(4, 2, 8, 8), torch.tensor([0, 1, 2, 0])

        def step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return (loss.detach(),)

        def after(i):
            model.train(i % 3 != 2)

        return step, after, lambda: [*model.parameters(), *model.buffers()]

    loop(build, calls=14, replays=8)


def test_freezing_a_parameter_is_seen():
    def build():
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step, _, state = training(model, optimizer)

        def after(i):
            if i == 5:
                model[0].weight.requires_grad_(False)

        return step, after, state

    loop(build, calls=10, replays=4)


def test_weights_replaced_changed_and_looked_at_between_calls():
    def build():
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        step, _, state = training(model, optimizer)
        kept = []

        def after(i):
            weight = model[0].weight
            if i == 4:
                kept.append(weight.detach().clone())
            if i == 5:
                with torch.no_grad():
                    weight.mul_(0.5)
            if i == 6:
                weight.data = array(16, 6, seed=9)
            if i == 7:
                model.load_state_dict({k: v * 0.9 for k, v in model.state_dict().items()})
            if i == 8:
                kept.append(weight.detach().numpy())  # memory that numpy sees from now on

        return step, after, lambda: [*state(), kept[0], torch.tensor(kept[1].tolist())]

    loop(build, calls=12, replays=3)


def test_module_replaced_between_calls_is_seen():
    def build():
        model = mlp()
        x = array(5, 6)

        def step():
            with torch.no_grad():
                return (model(x),)

        def after(i):
            if i == 4:
                model[1] = nn.Tanh()

        return step, after, lambda: []

    loop(build, calls=9, replays=3)


@pytest.mark.parametrize("first", [4, 4 + PLAIN_TIMES])
@pytest.mark.parametrize("had_one", [False, True])
def test_hook_added_between_calls_is_seen(first, had_one):
    """Also where there was one before, and where the comparisons are code."""

    def build():
        model = mlp()
        if had_one:
            model[0].weight.register_hook(lambda grad: grad).remove()
            model.register_forward_hook(lambda module, args, out: out).remove()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step, _, state = training(model, optimizer)

        def after(i):
            if i == first:
                model[0].weight.register_hook(lambda grad: grad * 0.5)
            if i == first + 2:
                model.register_forward_hook(lambda module, args, out: out + 1)

        return step, after, state

    loop(build, calls=first + 6, replays=2)


def test_checkpointed_step_with_dropout():
    from rushlight.utils.checkpoint import checkpoint

    def build():
        inner, outer = mlp(dropout=0.5), nn.Linear(3, 3)
        optimizer = torch.optim.SGD([*inner.parameters(), *outer.parameters()], lr=0.1)
        x = array(5, 6)

        def step():
            optimizer.zero_grad()
            loss = outer(checkpoint(inner, x, use_reentrant=False)).square().mean()
            loss.backward()
            optimizer.step()
            return (loss.detach(),)

        return step, lambda i: None, lambda: [*inner.parameters(), *outer.parameters()]

    loop(build)


def test_whole_step_given_as_check_equal():
    def make():
        model = mlp(dropout=0.2)
        optimizer = torch.optim.Adam(model.parameters())
        step, _, state = training(model, optimizer)
        return step, state

    check_equal(make, replays=4)
