"""Compiled calls whose outputs are differentiated outside of them: replayed, with equal bits."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd import call_fn, tape
from tests.unit.tensors.compile_checks import array, grads, replays, settled
from tests.unit.tensors.compile_checks import own_bits as bits

F = nn.functional
SCALE = 2.0


def mlp(seed=0, *, drop=0.0):
    torch.manual_seed(seed)
    parts = [nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.Tanh()]
    parts += [nn.Dropout(drop)] if drop else []
    return nn.Sequential(*parts, nn.Linear(5, 3))


def both(fn, *args, use=lambda out: out.sum(), calls=3):
    """Gradients of the arguments, compiled and not, for several calls; gives the compiled one."""
    run = settled(torch.compile(fn), *args)
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    count = replays(run)
    for _ in range(calls):
        found, wanted = run(*args), fn(*args)
        assert bits(found) == bits(wanted)
        use(found).backward()
        got = grads(*leaves)
        use(wanted).backward()
        assert got == grads(*leaves) and any(g is not None for g in got)
    assert replays(run) == count + calls
    return run


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("look", [False, True])
def test_a_training_loop_has_equal_bits(make, look):
    """`look`: the loss is read before the backward pass, so a flush is between."""
    plain, module = mlp(), mlp()
    run = torch.compile(module)
    ways = [(m, f, make(m.parameters(), lr=0.1)) for m, f in ((plain, plain), (module, run))]
    for turn in range(8):
        x, y = array(6, 4, seed=turn), torch.tensor([0, 1, 2, 0, 1, 2])
        seen = []
        for model, call, optimizer in ways:
            optimizer.zero_grad()
            loss = F.cross_entropy(call(x), y)
            if look:
                loss.item()
            loss.backward()
            optimizer.step()
            seen.append(bits([loss, *model.parameters()]))
        assert seen[0] == seen[1]
    assert replays(run) == 6


def test_nothing_is_computed_by_the_call_and_the_pass_is_one_recipe(monkeypatch):
    model, x = mlp(), array(6, 4)
    run = settled(torch.compile(model), x)
    for _ in range(2):
        run(x).sum().backward()
    out = run(x)
    assert not out._value().leaf and out.grad_fn.name() == "CompiledFunctionBackward"
    plain, go = [], tape.run
    monkeypatch.setattr(tape, "run", lambda *args: plain.append(go(*args)) or plain[-1])
    monkeypatch.setattr(call_fn.Template, "grads_at", None)  # no rule runs
    out.sum().backward()
    assert plain == [True] and out._value().leaf == "buffer"


def test_a_flush_between_does_not_compute_the_forward_twice():
    """What the gradient reads is kept by the flush, as for ordinary lazy code."""
    model, x = mlp(), array(6, 4)
    run = settled(torch.compile(model), x)
    out = run(x)
    held = [holder.node for holder in out.grad_fn.holders]
    assert any(not node.leaf for node in held)
    out.tolist()
    assert all(node.leaf or node.op.cheap for node in held)


MODULES = {
    "conv": lambda: (nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                                   nn.Flatten(), nn.Linear(12, 2)), array(2, 2, 6, 6)),
    "norms": lambda: (nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.GroupNorm(2, 4),
                                    nn.GELU()), array(3, 4)),
    "eval": lambda: (nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)).eval(), array(3, 4)),
    "transformer": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
                            array(2, 3, 8)),
    "tied": lambda: (nn.Sequential(*[nn.Linear(4, 4)] * 2, nn.Softmax(-1)), array(3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("low", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_replayed_with_equal_bits(name, low):
    torch.manual_seed(0)
    model, x = MODULES[name]()
    run = torch.compile(model)

    def step(call):
        torch.manual_seed(5)
        with torch.autocast("cpu", enabled=low):
            out = call(x)
        out = out[0] if isinstance(out, tuple) else out
        (out.float() ** 2).mean().backward()
        return [bits(out), *grads(*model.parameters())]

    for _ in range(5):
        assert step(run) == step(model)
    assert replays(run) >= 2, torch.compile_report(run)


def test_gradients_of_arguments_and_through_them():
    x = array(3, 4).requires_grad_()
    both(lambda a: (a * SCALE).tanh() * a, x)
    run = both(lambda a: a.sin().exp_(), x)
    assert run(x)._version == 1
    w = array(3, 4, seed=1).requires_grad_()
    inner = lambda a: (a * 3).exp()  # noqa: E731
    run = settled(torch.compile(inner), w * 1)
    inner(w * 2).sum().backward()
    wanted = grads(w)
    run(w * 2).sum().backward()
    assert grads(w) == wanted
    assert bits(torch.autograd.grad(run(x).sum(), x)) == bits(
        torch.autograd.grad(inner(x).sum(), x)
    )


def test_one_tensor_twice_is_not_two_tensors():
    x, y = array(3).requires_grad_(), array(3, seed=1).requires_grad_()
    same = x.detach().requires_grad_()
    fn = lambda a, b: a * b.sin()  # noqa: E731
    run = settled(torch.compile(fn), x, x)
    for first, second in ((x, x), (x, same), (same, x), (x, y), (x, x)):
        run(first, second).sum().backward()
        got = grads(x, y, same)
        fn(first, second).sum().backward()
        assert got == grads(x, y, same)


def test_one_view_twice_is_not_two_views():
    rows = array(2, 4)
    run, row = torch.compile(lambda a, b: a * 10 + b), rows[0]
    for _ in range(4):
        assert bits(run(row, row)) == bits(row * 10 + row)
    assert bits(run(rows[0], rows[1])) == bits(rows[0] * 10 + rows[1])


def test_views_as_arguments():
    rows = array(4, 6).requires_grad_()
    fn = lambda a, b: (a.tanh() * b).exp()  # noqa: E731
    run = torch.compile(fn)
    for turn in range(6):
        at = turn % 3
        run(rows[at], rows[at + 1]).sum().backward()
        got = grads(rows)
        fn(rows[at], rows[at + 1]).sum().backward()
        assert got == grads(rows)
    assert run.replays >= 3


def test_several_outputs_views_and_unused_ones():
    x = array(3, 4).requires_grad_()

    def fn(a):
        hidden = a.sigmoid()
        best, out = hidden.argmax(1), hidden.tanh()
        return {"off": out.detach(), "two": (out, out.t()), "sum": hidden.exp().sum(), "n": 3,
                "x": a, "best": best, "flat": (hidden * 2).view(-1)}  # fmt: skip

    use = {
        "all": lambda o: o["two"][0].sum() + (o["two"][1] ** 2).sum() + o["sum"] + o["flat"].sum(),
        "first": lambda o: o["two"][0].sum(),
        "view": lambda o: (o["two"][1] * o["off"].t()).sum(),
        "last": lambda o: o["sum"],
        "flat": lambda o: o["flat"][2],
    }
    run = settled(torch.compile(fn), x)
    for loss in use.values():
        out, wanted = run(x), fn(x)
        assert out["x"] is x and out["n"] == 3 and list(out) == list(wanted)
        assert bits(out) == bits(wanted)
        assert not out["off"].requires_grad and out["flat"].grad_fn.name() == "ViewBackward0"
        loss(out).backward()
        got = grads(x)
        loss(wanted).backward()
        assert got == grads(x)
    out = run(x)
    out["off"].add_(1)  # one memory, as without compile
    assert bits(out["off"]) == bits(out["two"][0])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out["two"][0].sum().backward()


def test_a_parameter_changed_between_is_an_error():
    model, x = mlp(), array(6, 4)
    run = settled(torch.compile(model), x)
    for retain in (True, False):
        loss = run(x).sum()
        with torch.no_grad():
            model[2].weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation.*5, 5"):
            loss.backward(retain_graph=retain)
    loss = run(x).sum()
    with torch.no_grad():
        model[0].weight.add_(1)  # no gradient reads it
    loss.backward()
    got = grads(*model.parameters())
    count = replays(run)
    run(x)
    assert replays(run) == count + 1
    with torch.no_grad():
        model[0].weight.sub_(1)
    assert None not in got


def test_twice_needs_retain_graph():
    model, x = mlp(), array(6, 4)
    run = settled(torch.compile(model), x)
    loss = run(x).sum()
    loss.backward(retain_graph=True)
    once = [p.grad.tolist() for p in model.parameters()]
    loss.backward()
    assert all((p.grad * 0.5).tolist() == g for p, g in zip(model.parameters(), once, strict=True))
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(run(x).sum() + loss, [model[0].weight])


@pytest.mark.parametrize("which", ["x", "weight"])
def test_gradients_of_gradients(which):
    x = array(3, 4).double().requires_grad_()
    layer = nn.Linear(4, 4).double()

    def fn(a):
        hidden = torch.tanh(layer(a)) * a.exp()
        return hidden * 0.5, (hidden**3).sum(1) * SCALE

    def penalty(call):
        hidden, out = call(x)
        of = {"x": x, "weight": layer.weight}[which]
        (first,) = torch.autograd.grad((out**2).sum() + hidden.sum(), of, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), x, create_graph=True)
        ((first**2).sum() + second.sin().sum()).backward()
        return [t.grad.clone() for t in (x, layer.weight, layer.bias)]

    run = settled(torch.compile(fn), x)
    count, results = replays(run), []
    for call in (run, fn):
        results.append([g.tolist() for g in penalty(call)])
        grads(x, *layer.parameters())
    assert replays(run) == count + 1
    for got, want in zip(*results, strict=True):
        got, want = torch.tensor(got).double(), torch.tensor(want).double()
        assert torch.allclose(got, want, rtol=1e-5)


def test_a_value_and_its_detached_twin_in_gradients_of_gradients():
    x = array(3).requires_grad_()
    fn = lambda a: a * a.detach() * a  # noqa: E731
    run = settled(torch.compile(fn), x)
    for call in (run, fn):
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        assert first.tolist() == (2 * x * x).tolist()
        first.sum().backward()
        assert x.grad.tolist() == (2 * x).tolist()
        x.grad = None


def test_hooks_and_retained_gradients():
    model, x = mlp(), array(6, 4)
    run = settled(torch.compile(model), x)

    def use(call):
        seen = []
        out = call(x)
        out.register_hook(lambda g: seen.append(bits(g)) or g * 2)
        out.retain_grad()
        out.grad_fn.register_prehook(lambda g: seen.append(bits(g)))
        model[0].weight.register_hook(lambda g: seen.append(bits(g)))
        (out * 3).sum().backward()
        model[0].weight._grad.hooks.clear()
        return [*seen, bits(out.grad), *grads(*model.parameters())]

    assert use(run) == use(model)


def test_hooks_inside_stay_ordinary_code():
    seen = []

    def fn(a):
        hidden = a * 2
        hidden.register_hook(lambda g: seen.append(g.tolist()))
        return hidden.exp()

    run, x = torch.compile(fn), array(2).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(5):
            run(x).sum().backward()
            assert len(seen) == turn + 1


def test_what_is_guarded():
    model, x = mlp(), array(6, 4)
    run = torch.compile(model)
    warnings.simplefilter("ignore")  # code that was seen once is looked for from then on

    def check(name, replayed=None):
        count = replays(run)
        run(x).sum().backward()
        got = grads(*model.parameters())
        model(x).sum().backward()
        assert got == grads(*model.parameters()), name
        assert replayed is None or (replays(run) > count) is replayed, name
        return got

    for _ in range(3):
        check("first")
    check("as before", True)
    model[2].weight.requires_grad_(False)
    assert check("frozen", False)[2] is None
    model[2].weight.requires_grad_(True)
    check("free again", True)
    model[2].weight = nn.Parameter(array(5, 5, seed=9))
    check("another weight", False)
    check("that weight", True)
    model[0].weight.data = array(5, 4, seed=8)
    check("other memory", False)
    model[3] = nn.Sigmoid()
    check("another layer", False)
    with torch.no_grad():
        assert not run(x).requires_grad
    check("with gradients again")
    check("and again", True)
    hook = model[1].register_forward_hook(lambda module, args, out: out * 2)
    check("a forward hook", False)
    hook.remove()
    check("without it")


def test_training_and_eval_and_random_numbers():
    def outputs(compiled):
        model = mlp(drop=0.5)
        run = torch.compile(model) if compiled else model
        torch.manual_seed(3)
        found = []
        for turn in range(12):
            run.train(turn % 6 < 4)
            out = run(array(6, 4, seed=turn))
            out.sum().backward()
            found += [bits(out), *grads(*model.parameters()), bits(torch.rand(2))]
        return found, replays(run) if compiled else 0

    wanted, _ = outputs(False)
    found, count = outputs(True)
    assert found == wanted and count >= 5


def test_argument_states_are_other_calls():
    layer = nn.Linear(4, 2)
    run, x = torch.compile(layer), array(3, 4)
    for _ in range(4):
        run(x)
    free = array(3, 4).requires_grad_()
    for _ in range(3):
        run(free).sum().backward()
        assert free.grad is not None
        free.grad = layer.weight.grad = None
    for rows in (3, 5, 3, 7, 5):
        y = array(rows, 4)
        for call in (run, layer):
            call(y).pow(2).sum().backward()
        got = layer.weight.grad.tolist()
        layer.weight.grad = None
        layer(y).pow(2).sum().backward()
        assert (layer.weight.grad * 2).tolist() == got
        layer.weight.grad = None
    double = nn.Linear(4, 2).double()
    again = settled(torch.compile(double), x.double())
    assert again(x.double()).dtype is torch.float64
    with torch.inference_mode():
        old = array(3, 4)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        run(old)


def test_values_that_wait_and_memory_of_numpy():
    import numpy as np

    layer = nn.Linear(4, 2)
    run = settled(torch.compile(layer), array(3, 4))
    memory = np.ones((3, 4), np.float32)
    for turn in range(4):
        memory[:] = turn
        shared = torch.from_numpy(memory)
        for x in (shared, array(3, 4) + turn, torch.zeros(3, 4), torch.full((3, 4), 2.0)):
            out = run(x)
            wanted = layer(x)
            memory[:] = turn  # what was read stays
            out.sum().backward()
            got = grads(*layer.parameters())
            wanted.sum().backward()
            assert got == grads(*layer.parameters()) and bits(out) == bits(wanted)
    memory[:] = 1
    shared = torch.from_numpy(memory)
    out = run(shared)
    memory[:] = 5
    assert bits(out) == bits(layer(torch.ones(3, 4)))


def test_packed_values_anomalies_and_notes_run_the_code():
    from rushlight.engine.origin import STATE as ORIGIN

    x, packed = array(3).requires_grad_(), []
    run = settled(torch.compile(lambda a: (a * SCALE).exp()), x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        run(x).sum().backward()
    assert packed
    with torch.autograd.set_detect_anomaly(True):
        assert run(x).grad_fn.name() == "ExpBackward0"
    ORIGIN.on = True
    try:
        assert run(x).grad_fn.name() == "ExpBackward0"
    finally:
        ORIGIN.on = False
    assert run(x).grad_fn.name() == "CompiledFunctionBackward"


@pytest.mark.parametrize("kind", ["kept", "leaf", "own", "inverse", "gradient", "both"])
def test_what_is_not_plain_stays_lazy(kind):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 5

    def keeps(a):
        a.kept = hidden = a.tanh()
        return hidden * 2

    def both(a):  # a gradient of one with regard to the other may be asked for
        hidden = a * 2
        return hidden.exp(), hidden

    fn = {
        "kept": keeps,
        "leaf": lambda a: a * torch.ones(4, requires_grad=True),
        "own": lambda a: Own.apply(a),
        "inverse": lambda a: torch.linalg.inv(a @ a.t() + torch.eye(3)),
        "gradient": lambda a: a * (a.grad if a.grad is not None else 2.0),
        "both": both,
    }[kind]

    def loss_of(out):
        if kind == "kept":
            return (out * x.kept).sum()
        if kind != "both":
            return (out**2).sum()
        return torch.autograd.grad(out[0].sum(), out[1], create_graph=True)[0].sum()

    run, x = torch.compile(fn), array(3, 4).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            loss_of(run(x)).backward()
            got = grads(x)
            loss_of(fn(x)).backward()
            assert got == grads(x)
    assert run.replays == 0


def test_what_is_different_in_every_call_becomes_lazy_without_a_warning(recwarn):
    x = array(6, 4)

    class Counts(nn.Module):
        def __init__(self, counts):
            super().__init__()
            self.inner, self.scale, self.calls, self.counts = mlp(), 0.0, 0, counts

        def forward(self, a):
            self.calls += self.counts
            return self.inner(a) * self.scale + self.calls

    for counts in (0, 1):
        model = Counts(counts)
        run = torch.compile(model, fullgraph=True)
        for turn in range(24):
            model.scale = turn * 0.5
            out = run(x)
            assert bits(out) == bits(model.inner(x) * model.scale + counts * (turn + 1))
            out.sum().backward()
        assert 4 < run._compiled.captures < 20 and not replays(run)
    assert not [w for w in recwarn if "compile" in str(w.message)]


def test_memory_is_let_go():
    model, x = mlp(), array(6, 4).requires_grad_()
    run = settled(torch.compile(model), x)
    w = array(6, 4).requires_grad_()
    before = w * 1
    out = run(before)
    marks = [weakref.ref(before), weakref.ref(out), weakref.ref(out.grad_fn), weakref.ref(w)]
    out.sum().backward()
    del out, before, w
    gc.collect()
    assert [mark() for mark in marks] == [None] * 4


def test_history_of_an_old_call_in_a_captured_one():
    weight, loss = nn.Parameter(array(3)), [None]
    inner = settled(torch.compile(lambda a: a * weight * a), array(3))

    def step():
        loss[0].backward()
        return weight.grad * 2

    run = torch.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(6):
            weight.grad = None
            loss[0] = inner(torch.full((3,), float(turn))).sum()
            assert run().tolist() == [2.0 * turn * turn] * 3


def test_chained_calls_and_use_outside():
    model, head, x = mlp(), nn.Linear(3, 2), array(6, 4)
    first, second = settled(torch.compile(model), x), torch.compile(head)
    settled(second, first(x))

    def loss(a, b):
        out = a(x)
        return (b(out) ** 2).sum() + (out * out).mean()

    for _ in range(3):
        loss(first, second).backward()
        got = grads(*model.parameters(), *head.parameters())
        loss(model, head).backward()
        assert got == grads(*model.parameters(), *head.parameters())
    ((model[0].weight ** 2).sum() + first(x).sum()).backward()
    got = model[0].weight.grad
    model.zero_grad()
    ((model[0].weight ** 2).sum() + model(x).sum()).backward()
    assert torch.allclose(got, model[0].weight.grad)


def test_the_report():
    model, x = mlp(), array(6, 4)
    run = settled(torch.compile(model), x)
    assert "kept 5 nodes and their gradient" in torch.compile_report(run)
    model[0].bias.requires_grad_(False)
    run(x)
    assert "requires_grad True -> False" in torch.compile_report(run)
    lazy = torch.compile(lambda a: a * torch.ones(4, requires_grad=True))
    for _ in range(3):
        lazy(x)
    assert "it returns a leaf" in torch.compile_report(lazy) or (
        "its history has more than operations" in torch.compile_report(lazy)
    )
