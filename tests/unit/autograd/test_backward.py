"""The tape: order, accumulation, hooks, versions, modes, and that looking changes nothing."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import rushlight as torch


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_gradients_against_finite_differences():
    x, y = leaf(0.3, -1.2, 2.0), leaf(1.5, 0.7, -0.4)
    functions = [
        lambda a, b: a * b + a.exp(),
        lambda a, b: (a @ b).sin(),
        lambda a, b: torch.softmax(a, 0) * b.tanh(),
        lambda a, b: torch.stack([a, b]).var(0),
        lambda a, b: torch.nn.functional.layer_norm(a, (3,), b),
        lambda a, b: a[[0, 2, 2]] * b.flip(0),
        lambda a, b: torch.where(a > b, a * 2, b**2),
    ]
    for function in functions:
        assert torch.autograd.gradcheck(function, (x, y))
        assert torch.autograd.gradgradcheck(function, (x, y))


def test_gradcheck_sees_a_wrong_gradient():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2.1

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(Wrong.apply, (leaf(1.0, 2.0),))
    assert not torch.autograd.gradcheck(Wrong.apply, (leaf(1.0),), raise_exception=False)


def test_looking_does_not_cut_the_tape_or_change_bits():
    def train(look):
        torch.manual_seed(0)
        w = torch.randn(4, 4, requires_grad=True)
        h = torch.ones(2, 4)
        for _ in range(3):
            h = (h @ w).tanh()
            if look:
                h.tolist(), repr(h), w.sum().item()
        h.sum().backward()
        return w.grad.tolist()

    assert train(True) == train(False)


def test_grad_is_accumulated_in_place_and_holders_see_it():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    held = x.grad
    (x * 2).sum().backward()
    assert held is x.grad and held.tolist() == [3, 3]
    x.grad = None
    x.sum().backward()
    assert held.tolist() == [3, 3] and x.grad.tolist() == [1, 1]


def test_two_leaves_of_one_gradient_do_not_share_it():
    a, b = leaf(1.0), leaf(2.0)
    (a + b).sum().backward()
    a.grad.mul_(10)
    assert a.grad.item() == 10 and b.grad.item() == 1


def test_deep_tape_needs_no_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(3000):
        y = y + 0.0
    (g,) = torch.autograd.grad(y, x)
    del y  # the values of the chain are not needed
    assert g.item() == 1


def test_hooks_run_in_order_and_can_replace():
    seen = []
    x = leaf(1.0)
    y = x * 3
    y.register_hook(lambda g: seen.append(("y", g.item())))
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: seen.append(("x", g.item())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("post", t.grad.item())))
    y.backward()
    assert seen == [("y", 1), ("x", 6), ("post", 6)]


def test_saved_value_changed_in_place_is_an_error_that_names_it():
    w = leaf(1.0, 2.0)
    h = w * 2
    loss = (h * h).sum()
    h.add_(1)
    with pytest.raises(
        RuntimeError, match=r"\[torch.DoubleTensor \[2\]\], which is output 0 of Add"
    ):
        loss.backward()
    with torch.no_grad():
        loss = (w * w).sum()
        assert not loss.requires_grad
    loss = (w + w).sum()
    with torch.no_grad():
        w.add_(1)  # addition saves nothing: no error
    loss.backward()
    assert w.grad.tolist() == [2, 2]


def test_graph_is_freed_after_backward():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = (y * 2).sum()
    alive = weakref.ref(y.grad_fn)
    z.backward()
    del y, z
    gc.collect()
    assert alive() is None


def test_grad_mode_belongs_to_the_thread():
    found = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: found.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert found == [True] and torch.is_grad_enabled()


def test_no_grad_as_decorator_of_functions_and_generators():
    x = leaf(1.0)

    @torch.no_grad()
    def numbers():
        yield (x * 2).requires_grad
        yield (x * 2).requires_grad

    items = numbers()
    assert next(items) is False and (x * 2).requires_grad and next(items) is False
    assert torch.no_grad(lambda: (x * 2).requires_grad)() is False


def test_inference_tensors_are_kept_out():
    with torch.inference_mode():
        t = torch.ones(2)
    assert t.is_inference() and not torch.ones(2).is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        t.add_(1)
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        t * leaf(1.0, 2.0)


def test_views_follow_the_history_of_their_base():
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view, other = base[1:], base[:2]
    view.mul_(10)
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    (other * torch.tensor([1.0, 1.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [1, 10, 0]


def test_saved_tensors_hooks_see_what_is_saved():
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.tolist())
        return len(packed) - 1

    def unpack(number):
        unpacked.append(number)
        return torch.tensor(packed[number], dtype=torch.float64)

    x = leaf(2.0, 3.0)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
    y.sum().backward()
    assert packed == [[2, 3], [2, 3]] and unpacked == [0, 1] and x.grad.tolist() == [4, 6]


def test_once_differentiable_refuses_the_second_time():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g * 2 * a

    x = leaf(3.0)
    (g,) = torch.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    assert g.item() == 6
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_threads_record_and_run_at_the_same_time():
    def work(results, number):
        x = torch.full((50,), float(number), requires_grad=True)
        for _ in range(20):
            loss = (x * x + number).sum()
            loss.backward()
        results[number] = x.grad[0].item()

    results = {}
    threads = [threading.Thread(target=work, args=(results, n)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 40.0 * n for n in range(1, 5)}


def test_leaf_over_a_part_of_a_storage_is_a_base_of_its_own():
    memory = torch.arange(6.0).view(2, 3)
    w = memory[1].detach().requires_grad_()
    (w[1:] * 3).sum().backward()
    assert w.grad.tolist() == [0, 3, 3]
    h = memory.t()[1:].detach()
    h[0] = w[:2] * 10
    assert h.requires_grad and memory.tolist() == [[0, 30, 2], [3, 40, 5]]
    h.sum().backward()
    assert w.grad.tolist() == [10, 13, 3]


def test_a_leaf_that_was_frozen_after_its_use_gets_no_gradient():
    for retain in (True, False):
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        loss = (a * b).sum()
        loss.backward(retain_graph=True)
        a.requires_grad_(False)
        loss.backward(retain_graph=retain)
        assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [2, 2]
    a = torch.ones(2, requires_grad=True)
    loss = (a * a).sum()
    a.detach_()
    loss.backward()
    assert a.grad is None and not a.requires_grad


FACTOR = torch.full((2, 2), 3.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w * 2,
        lambda w: w * FACTOR,
        lambda w: FACTOR @ w,
        lambda w: torch.nn.functional.linear(FACTOR, w),
        lambda w: w / 2,
        lambda w: torch.where(FACTOR > 0, w, 0.0),
        lambda w: torch.addcmul(w, FACTOR, FACTOR),
        lambda w: w.lerp(FACTOR, 0.5),
        lambda w: w.index_select(0, torch.tensor([0])),
    ],
)
def test_what_no_gradient_reads_may_be_changed_before_the_backward(function):
    w = torch.ones(2, 2, requires_grad=True)
    loss = function(w).sum()
    loss.backward(retain_graph=True)
    before = w.grad.tolist()
    w.grad = None
    with torch.no_grad():
        w.mul_(5)
    loss.backward()
    assert w.grad.tolist() == before


def test_what_a_gradient_reads_must_not_be_changed_before_the_backward():
    w = torch.ones(2, 2, requires_grad=True)
    for function in (
        lambda: w * w,
        lambda: w**2,
        lambda: 1 / w,
        lambda: w @ w,
        lambda: w.exp() * w,
    ):
        loss = function().sum()
        with torch.no_grad():
            w.mul_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    x = torch.ones(2, 2)
    loss = (x * w).sum()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inputs_of_frozen_layers_are_not_kept():
    kept = []
    x = torch.ones(2, 2, requires_grad=True)
    frozen = torch.ones(2, 2)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        torch.nn.functional.linear(x, frozen)
    assert len(kept) == 1
