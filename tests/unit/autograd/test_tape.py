"""A backward pass that was made before is computed as a recipe: when, when not, equal bits."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from random import Random

import pytest

import rushlight as torch
from rushlight.autograd import fn_recipe, tape
from rushlight.autograd.protocol import TENSORS
from rushlight.base.devices import DEVICES
from rushlight.engine import recipe_flush
from rushlight.engine.failures import RunFailed
from rushlight.ir.interpret import interpret


@pytest.fixture
def counts(monkeypatch):
    """How often passes were made in which way: [as a recipe in a flush, as nodes, not plain]."""
    seen = [0, 0, 0]
    monkeypatch.setattr(DEVICES, "used", False)
    compute, run, made = TENSORS.compute, tape.run, tape.TapeGraph.made

    def counting_compute(graph, values):
        found = compute(graph, values)
        seen[0] += found is not None
        return found

    def counting_run(*args):
        plain = run(*args)
        seen[2] += not plain
        return plain

    def counting_made(self, values):
        seen[1] += 1
        return made(self, values)

    monkeypatch.setattr(TENSORS, "compute", counting_compute)
    monkeypatch.setattr(tape, "run", counting_run)
    monkeypatch.setattr(tape.TapeGraph, "made", counting_made)
    return seen


def model(rows=3, dtype=torch.float32):
    torch.manual_seed(0)
    x = torch.randn(rows, 4, dtype=dtype)
    w = torch.randn(4, 5, dtype=dtype, requires_grad=True)
    b = torch.randn(5, dtype=dtype, requires_grad=True)
    v = torch.randn(5, dtype=dtype, requires_grad=True)
    assert v.tolist()  # in memory, and all others with it
    return x, w, b, v


def loss_of(x, w, b, v):
    return ((torch.tanh(x @ w + b) * v).sum(1) ** 2).mean()


def grads_of(*leaves):
    grads = [leaf.grad.tolist() for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return grads


def test_equal_passes_are_computed_as_recipes_and_the_bits_are_equal(counts, monkeypatch):
    x, *leaves = model()
    found = []
    for _ in range(3):
        loss_of(x, *leaves).backward()
        found.append(grads_of(*leaves))
    assert counts == [3, 0, 0]
    with monkeypatch.context() as patch:
        patch.setattr(TENSORS, "compute", lambda *_: None)
        loss_of(x, *leaves).backward()
        found.append(grads_of(*leaves))
    assert counts == [3, 1, 0]
    with monkeypatch.context() as patch:
        patch.setattr(tape, "run", lambda *_: False)
        loss_of(x, *leaves).backward()
        found.append(grads_of(*leaves))
    assert counts == [3, 1, 0]
    assert all(grads == found[0] for grads in found)


def test_what_waits_is_computed_by_the_same_program(counts):
    x, w, b, v = model()
    for turn in range(3):
        hidden = torch.tanh(x @ w + b)
        loss = ((hidden * v).sum(1) ** 2).mean()
        other = x * (2 + turn)
        before = recipe_flush.realize.programs().compiled
        loss.backward()
        assert hidden._value().leaf == loss._value().leaf == other._value().leaf == "buffer"
        if turn:
            assert recipe_flush.realize.programs().compiled == before
        assert hidden.tolist() == torch.tanh(x @ w + b).tolist()
        assert other.tolist() == (x * (2 + turn)).tolist()
        w.grad = b.grad = v.grad = None
    assert counts == [3, 0, 0]


def test_other_shapes_and_dtypes_are_other_passes(counts):
    found = {}
    for _ in range(2):
        for rows, dtype in ((3, torch.float32), (6, torch.float32), (3, torch.float64)):
            x, *leaves = model(rows, dtype)
            loss_of(x, *leaves).backward()
            assert all(leaf.grad.dtype is dtype for leaf in leaves)
            grads = grads_of(*leaves)
            assert found.setdefault((rows, dtype), grads) == grads
    assert counts == [6, 0, 0]
    single, double = found[3, torch.float32], found[3, torch.float64]
    assert single != double and found[6, torch.float32] != single


def test_numbers_are_read_again(counts):
    x, w, b, v = model()
    for factor in (1.0, 2.0, -3.0):
        (loss_of(x, w, b, v) * factor).backward()
        _, _, scaled = grads_of(w, b, v)
        loss_of(x, w, b, v).backward()
        _, _, plain = grads_of(w, b, v)
        assert scaled == pytest.approx([factor * g for g in plain], rel=1e-6)
    assert counts[0] == 6


def test_another_graph_of_equal_calls_is_another_pass():
    """Which value goes where is part of what a pass is known by."""
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    for _ in range(2):
        ((a * b) * a).backward()
        assert (a.grad.item(), b.grad.item()) == (12, 4)
        a.grad = b.grad = None
        ((a * b) * b).backward()
        assert (a.grad.item(), b.grad.item()) == (9, 12)
        a.grad = b.grad = None
        ((a * a) * b).backward()
        assert (a.grad.item(), b.grad.item()) == (12, 4)
        a.grad = b.grad = None


def test_passes_that_differ_in_saved_values_only():
    w, x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0), torch.tensor(5.0)
    for _ in range(2):
        for factor, want in ((x, 9), (y, 15), (x, 9)):
            w.grad = None
            ((w * x) * factor).backward()
            assert w.grad.item() == want


def test_passes_that_differ_in_edges_only():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for _ in range(2):
        for last, want in ((a, (2, 1)), (b, (1, 2))):
            a.grad = b.grad = None
            ((a + b) + last).sum().backward()
            assert (a.grad[0].item(), b.grad[1].item()) == want


def test_gradients_that_exist_are_added_to(counts):
    x, *leaves = model()
    loss_of(x, *leaves).backward()
    held = leaves[0].grad
    once = held.tolist()
    loss_of(x, *leaves).backward()
    assert counts == [1, 1, 0]
    assert leaves[0].grad is held
    assert held.tolist() == [[g + g for g in row] for row in once]


def test_a_retained_graph_keeps_its_values(counts):
    x, *leaves = model()
    loss = loss_of(x, *leaves)
    loss.backward(retain_graph=True)
    first = grads_of(*leaves)
    loss.backward()
    assert grads_of(*leaves) == first
    assert counts == [1, 1, 0]
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("kind", ["tensor", "leaf", "post", "node", "prehook", "retain", "packed"])
def test_hooks_make_the_ordinary_pass(counts, kind):
    def once(hooked):
        x, w, b, v = model()
        seen = []
        pack = torch.autograd.graph.saved_tensors_hooks(
            lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t
        )
        if hooked == "packed":
            with pack:
                loss = loss_of(x, w, b, v)
        else:
            hidden = torch.tanh(x @ w + b)
            if hooked == "tensor":
                hidden.register_hook(lambda g: seen.append(g.shape))
            if hooked == "retain":
                hidden.retain_grad()
            loss = ((hidden * v).sum(1) ** 2).mean()
        if hooked == "leaf":
            w.register_hook(lambda g: seen.append(g.shape))
        if hooked == "post":
            w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.shape))
        if hooked == "node":
            loss.grad_fn.register_hook(lambda *_: seen.append("node"))
        if hooked == "prehook":
            loss.grad_fn.register_prehook(lambda *_: seen.append("prehook"))
        loss.backward()
        if hooked == "retain":
            seen.append(hidden.grad.shape)
        return grads_of(w, b, v), seen

    plain, _ = once("")
    assert counts == [1, 0, 0]
    hooked, seen = once(kind)
    assert seen and counts == [1, 0, 1]
    assert hooked == plain
    assert once("")[0] == plain and counts == [2, 0, 1]


def test_hooks_see_the_state_of_their_time(counts):
    """A hook after the first leaf: the other leaf has no gradient yet."""
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    seen = []
    v.register_post_accumulate_grad_hook(lambda t: seen.append(w.grad))
    (w.exp() * v).sum().backward()
    assert seen == [None] and w.grad is not None and counts == [0, 0, 1]


def test_with_other_devices_passes_are_made_of_nodes(counts, monkeypatch):
    x, *leaves = model()
    monkeypatch.setattr(DEVICES, "used", True)
    loss_of(x, *leaves).backward()
    assert counts == [0, 1, 0]


def test_create_graph_anomaly_and_chosen_inputs_are_ordinary(counts, monkeypatch):
    monkeypatch.setattr(tape, "_build", lambda *_: pytest.fail("a recipe was made"))
    x, w, b, v = model()
    loss_of(x, w, b, v).backward(create_graph=True)
    assert w.grad.requires_grad
    w.grad = b.grad = v.grad = None
    loss_of(x, w, b, v).backward(inputs=[w])
    assert b.grad is None and w.grad is not None
    with torch.autograd.set_detect_anomaly(True):
        loss_of(x, w, b, v).backward()
    assert torch.autograd.grad(loss_of(x, w, b, v), [w])[0].shape == w.shape
    assert counts == [0, 0, 0]


def test_a_changed_saved_tensor_is_still_an_error(counts):
    x, w, b, v = model()
    for _ in range(2):  # known by the second time
        loss_of(x, w, b, v).backward()
        w.grad = b.grad = v.grad = None
    loss = loss_of(x, w, b, v)
    with torch.no_grad():
        v.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()
    hidden = torch.tanh(x @ w + b)
    loss = (hidden * v).sum()
    hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()
    hidden = w.exp()  # only its output is saved
    loss = hidden.sum()
    hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()
    assert w.grad is None


def test_who_holds_a_value_or_a_view_keeps_it(counts):
    x, w, b, v = model()
    kept = []
    for _ in range(3):
        hidden = torch.tanh(x @ w + b)
        row, saved = hidden[1], hidden.detach()
        loss = ((hidden * v).sum(1) ** 2).mean()
        loss.backward()
        kept.append((row, saved, loss, w.grad, w.grad[0]))
        w.grad = b.grad = v.grad = None
    assert counts[0] == 3
    for row, saved, loss, grad, part in kept:
        assert row.tolist() == torch.tanh(x @ w + b)[1].tolist() == saved.tolist()[1]
        assert loss.item() == loss_of(x, w, b, v).item()
        assert grad.tolist() == kept[0][3].tolist() and part.tolist() == grad.tolist()[0]


def test_gradients_given_and_shared_outputs(counts):
    """The seed itself is a gradient; two leaves of one gradient do not share memory."""
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for _ in range(3):
        seed = torch.ones(3) * 2
        (a + b).backward(seed)
        assert a.grad.tolist() == b.grad.tolist() == seed.tolist() == [2, 2, 2]
        with torch.no_grad():
            a.grad.mul_(5)
        assert a.grad.tolist() == [10] * 3 and b.grad.tolist() == seed.tolist() == [2, 2, 2]
        a.grad = b.grad = None
    for _ in range(3):
        (a.exp() + b.exp()).sum().backward()
        with torch.no_grad():
            a.grad.zero_()
        assert b.grad.tolist() == pytest.approx([2.7182818] * 3)
        a.grad = b.grad = None


def test_memory_of_saved_values_goes_with_the_pass(counts):
    x, w, b, v = model()
    for turn in range(3):
        hidden = torch.tanh(x @ w + b)
        holder = hidden.grad_fn.saved_out.holder
        gone = weakref.ref(holder)
        loss = ((hidden * v).sum(1) ** 2).mean()
        del hidden, holder
        loss.backward()
        gc.collect()
        assert gone() is None, turn
        w.grad = b.grad = v.grad = None


def test_the_memory_of_what_is_saved_may_be_taken_over(counts):
    """What nobody needs after the pass is given to the program, as in an ordinary flush."""
    taken = []
    run = recipe_flush.launch

    def noting(program, *rest):
        taken.append(len(program.plan.reuse))
        return run(program, *rest)

    recipe_flush.launch = noting
    try:
        w = torch.randn(8, 8, requires_grad=True)
        for _ in range(2):
            hidden = w.sin()
            loss = (hidden * hidden).sum()
            assert hidden.tolist() and loss.tolist()
            del hidden  # in memory, and saved for the pass only from here
            loss.backward()
            w.grad = None
    finally:
        recipe_flush.launch = run
    assert taken == [1, 1]


def test_no_grad_and_inference_mode_around_a_pass(counts):
    x, *leaves = model()
    loss_of(x, *leaves).backward()
    plain = grads_of(*leaves)
    for mode in (torch.no_grad, torch.inference_mode):
        loss = loss_of(x, *leaves)
        with mode():
            loss.backward()
        assert leaves[0].grad.is_inference() is (mode is torch.inference_mode)
        assert grads_of(*leaves) == plain
    assert counts == [3, 0, 0]


@pytest.mark.filterwarnings("error")
def test_inside_a_captured_call_the_pass_is_recorded():
    x, *leaves = model()

    @torch.compile
    def step():
        loss = loss_of(x, *leaves)
        loss.backward()
        return loss.detach()

    loss_of(x, *leaves).backward()
    plain = grads_of(*leaves)
    for _ in range(3):
        step()
        assert leaves[0].grad.tolist() == plain[0]
        for leaf in leaves:
            leaf.grad = None


def test_a_run_that_fails_says_what_failed(counts):
    """An index out of range in the forward: the ordinary error, at the user's value."""
    table = torch.ones(3, 2, requires_grad=True)
    for bad in (False, True, False):
        rows = torch.tensor([0, 5 if bad else 2]) + 0  # its values are not known yet
        loss = (table[rows] * table[rows]).sum()
        if bad:
            with pytest.raises(IndexError, match="out of range|out of bounds"):
                loss.backward()
            table.grad = None
        else:
            loss.backward()
            assert table.grad.tolist() == [[2, 2], [0, 0], [2, 2]]
            table.grad = None


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, RunFailed])
def test_an_error_in_the_run_leaves_gradients_that_wait(counts, monkeypatch, error):
    x, *leaves = model()
    loss_of(x, *leaves).backward()
    plain = grads_of(*leaves)
    loss = loss_of(x, *leaves)

    def fail(*_):
        raise RunFailed(None, ValueError("planted")) if error is RunFailed else error

    with monkeypatch.context() as patch:
        patch.setattr(recipe_flush, "launch", fail)
        if error is RunFailed:  # what the ordinary flush says counts, and here it says nothing
            loss.backward()
        else:
            with pytest.raises(error):
                loss.backward()
            assert leaves[0].grad._value().leaf == ""
    assert grads_of(*leaves) == plain
    assert loss.item() == loss_of(x, *leaves).item()


def test_an_error_while_compiling_leaves_gradients_that_wait(counts, monkeypatch):
    x, *leaves = model(7)
    loss = loss_of(x, *leaves)
    with monkeypatch.context() as patch:
        patch.setattr(recipe_flush.realize, "programs", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward()
    grads = grads_of(*leaves)
    loss_of(x, *leaves).backward()
    assert grads_of(*leaves) == grads


def test_two_threads_make_passes(counts):
    x, *_ = model()
    expected = []
    for factor in (1.0, 2.0):
        _, w, b, v = model()
        (loss_of(x, w, b, v) * factor).backward()
        expected.append(grads_of(w, b, v))
    wrong = []

    def work(factor, want):
        _, w, b, v = model()
        for _ in range(30):
            (loss_of(x, w, b, v) * factor).backward()
            if grads_of(w, b, v) != want:
                wrong.append(factor)

    threads = [
        threading.Thread(target=work, args=pair) for pair in zip((1.0, 2.0), expected, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert counts[0] == 62


def test_the_tables_stay_small(monkeypatch):
    monkeypatch.setattr(tape, "MOST_GRAPHS", 4)
    monkeypatch.setattr(recipe_flush, "MOST_KNOWN", 4)
    tape._GRAPHS.clear()
    recipe_flush._KNOWN.clear()
    for size in range(2, 12):
        w = torch.ones(size, requires_grad=True)
        (w * w).sum().backward()
        assert w.grad.tolist() == [2] * size
    assert len(tape._GRAPHS) <= 4 and len(recipe_flush._KNOWN) <= 4


def _random_loss(random, leaves):
    """A graph of sums, products and the like; old values are met again."""
    values = [*leaves, leaves[0].detach(), leaves[1].detach()]
    for _ in range(random.randint(2, 5)):
        a, b = random.choice(values), random.choice(values[-4:])
        values.append([a + b, a * b, a.sin(), a * random.random()][random.randrange(4)])
    return (values[-1] + values[-2] + leaves[2]).sum()


def test_random_graphs_have_the_ordinary_gradients(monkeypatch):
    """The nodes of repeated passes, evaluated, against those of the ordinary pass."""
    repeated = 0
    leaves = [torch.tensor([0.5 + i, 1.5 - i]).requires_grad_() for i in range(3)]

    def evaluated(plain, seed):
        random = Random(seed)
        with monkeypatch.context() as patch:
            patch.setattr(TENSORS, "compute", lambda *_: None)
            patch.setattr(TENSORS, "finish", lambda: None)
            if plain:
                patch.setattr(tape, "run", lambda *_: False)
            _random_loss(random, leaves).backward()
        nodes = [leaf.grad._value() for leaf in leaves if leaf.grad is not None]
        for leaf in leaves:
            leaf.grad = None
        arrays = interpret(nodes, lambda leaf: leaf.buffer.view(leaf.dtype, leaf.shape))
        return [array.tolist() for array in arrays]

    for seed in range(600):
        known = len(tape._GRAPHS)
        assert evaluated(False, seed) == evaluated(True, seed), seed
        repeated += len(tape._GRAPHS) == known
    assert repeated > 100


def test_sums_are_in_the_order_in_which_calls_were_made(monkeypatch):
    a = torch.linspace(-3, 3, 64).requires_grad_()
    calls = {"sin": torch.sin, "exp": torch.exp, "cube": lambda t: t * t * t, "tanh": torch.tanh}

    def grads(order):
        a.grad = None
        values = {name: calls[name](a) for name in order}
        (values["sin"] + values["exp"] + values["cube"] + values["tanh"]).sum().backward()
        return a.grad.tolist()

    found = {order: grads(order) for order in itertools.permutations(calls)}
    monkeypatch.setattr(tape, "run", lambda *_: False)
    assert found == {order: grads(order) for order in found}
    assert len({tuple(grad) for grad in found.values()}) > 1


def test_a_pass_that_is_not_plain_gives_the_same_bits():
    """Rules of single functions are kept, too: with hooks, numbers and shared operands."""

    def pass_over(scale, exponent, hooked):
        x = torch.linspace(0.1, 2.0, 7).requires_grad_()
        y = (x * x).sin() * scale + x.exp() / 3 + x**exponent + x.clamp(0.2, 0.7) + (x + x)
        if hooked:
            y.register_hook(lambda g: g * 1)
        (y * torch.ones(7)).sum().backward()
        return x.grad.tolist()

    for scale, exponent in ((2.0, 2.5), (3.0, 2.0), (2.0, 0.0), (2.0, 1.0), (-1.0, 2.5)):
        wanted = pass_over(scale, exponent, False)
        assert pass_over(scale, exponent, True) == wanted
        assert pass_over(scale, exponent, True) == wanted


def test_the_rule_of_a_function_runs_once_for_equal_calls(monkeypatch):
    made = []
    make = fn_recipe._make
    monkeypatch.setattr(fn_recipe, "_make", lambda *args: made.append(args[0]) or make(*args))

    def go(factor):
        x = torch.linspace(0.5, 1.0, 11).requires_grad_()
        y = x * factor
        y.register_hook(lambda g: None)
        y.cosh().sum().backward()
        return x.grad

    first = go(2.0)
    count = len(made)
    second = go(5.0)
    assert len(made) == count
    x = torch.linspace(0.5, 1.0, 11)
    assert torch.allclose(first, 2 * (2 * x).sinh()) and torch.allclose(second, 5 * (5 * x).sinh())
