"""Weights that stay packed: the same bits as without, and never those of an old value."""

from __future__ import annotations

import ctypes
import gc
import threading
from functools import partial

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base.config import config
from rushlight.engine.realize import PROGRAMS
from rushlight.runtime.buffer import empty_cache, stats
from rushlight.runtime.packed import PACKED
from rushlight.tensors import tensor


@pytest.fixture(autouse=True)
def from_scratch():
    PACKED.clear()
    PROGRAMS._families.clear()
    torch.manual_seed(0)
    yield
    PACKED.clear()


def bits(tensor) -> bytes:
    return tensor.detach().clone().view(torch.uint8).numpy().tobytes()


def check(f) -> None:
    """f() gives what it gives where nothing stays packed."""
    with config.override(packed_weights_mb=0):
        want = bits(f())
    assert bits(f()) == want


def warm(f) -> None:
    """Used so often that the weight stays packed."""
    for _ in range(3):
        check(f)
    assert PACKED.nbytes() > 0


def test_what_waits_is_computed_before_somebody_writes_at_an_address():
    w = torch.ones(30, 30)
    y = w @ w
    (ctypes.c_float * 900).from_address(w.data_ptr())[0] = 5
    assert y[0, 0].item() == 30
    assert (w @ w)[0, 0].item() == 54


def test_an_equal_value_does_not_change_with_what_is_written_at_an_address():
    x = torch.tensor([1.0, 2.0])
    copies = [x.clone(), torch.empty(2).copy_(x), x.clone().view(2)[:1]]
    assert [copy[0].item() for copy in copies] == [1, 1, 1]
    (ctypes.c_float * 2).from_address(x.data_ptr())[0] = 5
    assert [copy[0].item() for copy in copies] == [1, 1, 1]
    assert x.tolist() == [5, 2]


CASES = [(9, 576, 576), (33, 1000, 577), (200, 640, 1536), (50, 130, 3000), (17, 777, 129)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("m,n,k", CASES)
@pytest.mark.parametrize("is_turned", [False, True])
def test_linear_has_the_same_bits(m, n, k, dtype, is_turned):
    x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    turned = torch.randn(k, n).to(dtype)
    warm((lambda: x @ turned) if is_turned else (lambda: F.linear(x, w)))


def test_int8_and_batches_and_convolutions_have_the_same_bits():
    x, w = torch.randint(-9, 9, (20, 700)).to(torch.int8), torch.randint(-9, 9, (300, 700))
    w = w.to(torch.int8)
    warm(lambda: torch._int_mm(x, w.t()))
    a, b = torch.randn(3, 20, 200), torch.randn(3, 200, 150)
    warm(lambda: torch.bmm(a, b))
    image, kernel = torch.randn(2, 64, 14, 14), torch.randn(128, 64, 3, 3)
    warm(lambda: F.conv2d(image, kernel, stride=2, padding=1))


def test_part_of_a_weight_and_two_weights_of_one_cell():
    w, x = torch.randn(3 * 256, 300), torch.randn(20, 300)
    warm(lambda: F.linear(x, w[256:512]))
    warm(lambda: F.linear(x, w[512:]))


def test_one_weight_twice_in_a_program():
    w, x = torch.randn(300, 300), torch.randn(20, 300)
    warm(lambda: F.linear(torch.relu(F.linear(x, w)), w))


def add_in_place(w):
    w.add_(1)


def write_a_part(w):
    w[3:5, 7] = 2.5


def set_data(w):
    w.data = torch.ones_like(w)


def write_data(w):
    w.data.mul_(-2)


def write_by_numpy(w):
    w.numpy()[2] = 7


def write_a_view(w):
    w.view(-1)[100:200].zero_()


def copy(w):
    w.copy_(torch.full_like(w, 3))


def write_storage(w):
    w.untyped_storage().fill_(0)


def write_at_its_address(w):
    elements = (ctypes.c_float * w.numel()).from_address(w.data_ptr())
    elements[7] += 30


def write_at_its_storage(w):
    elements = (ctypes.c_float * w.numel()).from_address(w.untyped_storage().data_ptr())
    elements[7] += 30


def write_by_dlpack(w):
    np.from_dlpack(w)[5, 5] += 30


CHANGES = [
    add_in_place, write_a_part, set_data, write_data, write_by_numpy, write_a_view, copy,
    write_storage, write_at_its_address, write_at_its_storage, write_by_dlpack,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_changed_weight_is_packed_again(change, is_compiled):
    w, x = torch.randn(300, 300), torch.randn(20, 300)
    f = torch.compile(lambda: F.linear(x, w)) if is_compiled else lambda: F.linear(x, w)
    with torch.no_grad():
        warm(f)
        before = bits(f())
        for _ in range(2):
            change(w)
            for _ in range(4):
                check(f)
    assert bits(f()) != before


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.AdamW])
def test_steps_of_an_optimizer_between_uses(rule, is_compiled):
    model, x = torch.nn.Linear(300, 300), torch.randn(20, 300)
    optimizer = rule(model.parameters(), lr=0.1)

    def train():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step = torch.compile(train) if is_compiled else train

    @torch.no_grad()
    def evaluate():
        return model(x)

    for _ in range(4):
        for _ in range(4):
            check(evaluate)
        before = bits(evaluate())
        step()
        assert bits(evaluate()) != before


MADE_OF = {
    "masked": lambda a, b: a * b,
    "a norm of weights": lambda a, b: a * (b[:, :1] / b.square().sum(1, keepdim=True).sqrt()),
    "low rank": lambda a, b: a + b[:, :8] @ b[:8],
    "typed": lambda a, b: (a * b).bfloat16().float(),
}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("made_of", MADE_OF.values(), ids=MADE_OF)
def test_weights_made_of_two_that_one_step_writes(made_of, is_compiled):
    a, b = (torch.nn.Parameter(torch.randn(300, 300)) for _ in range(2))
    optimizer, x = torch.optim.SGD([a, b], lr=0.1), torch.randn(20, 300)

    def train():
        optimizer.zero_grad()
        F.linear(x, made_of(a, b)).square().mean().backward()
        optimizer.step()

    step = torch.compile(train) if is_compiled else train

    @torch.no_grad()
    def evaluate():
        return F.linear(x, made_of(a, b))

    for _ in range(4):
        for _ in range(4):
            check(evaluate)
        before = bits(evaluate())
        step()
        assert bits(evaluate()) != before


def test_a_call_that_also_writes_what_it_does_not_read():
    w, x = torch.randn(300, 300), torch.randn(20, 300)
    others = [torch.zeros(4) for _ in range(3)]

    @torch.compile
    def step():
        w.add_(1)
        for other in others:
            other.fill_(2)

    for _ in range(6):
        step()
        for _ in range(3):
            check(lambda: F.linear(x, w))


def test_gradients_that_are_written_over_are_packed_again():
    w, x = torch.randn(300, 300, requires_grad=True), torch.randn(20, 300)
    other = torch.randn(20, 300)

    @torch.compile
    def step(x):
        w.grad = None
        F.linear(x, w).square().sum().backward()

    for number in range(6):
        step(x * number)
        for _ in range(3):
            check(lambda: F.linear(other, w.grad))


def test_memory_shared_with_numpy_is_never_packed(monkeypatch):
    monkeypatch.setattr(tensor, "SNAPSHOT_BYTES", 1 << 10)  # it is read where it lies
    array = np.ones((300, 300), np.float32)
    w, x = torch.from_numpy(array), torch.randn(20, 300)
    for number in range(6):
        array[...] = number
        check(lambda: F.linear(x, w))
    kept = PACKED.nbytes()
    assert kept < array.nbytes


def test_training_packs_nothing_to_stay():
    model, x = torch.nn.Linear(300, 300), torch.randn(20, 300)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    gc.collect()
    assert PACKED.nbytes() == 0


def test_a_frozen_layer_in_training_stays_packed():
    frozen, head = torch.nn.Linear(300, 300).requires_grad_(False), torch.nn.Linear(300, 4)
    x = torch.randn(20, 300)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)

    @torch.compile
    def step():
        optimizer.zero_grad()
        head(frozen(x)).square().mean().backward()
        optimizer.step()

    for _ in range(6):
        step()
    assert PACKED.nbytes() >= 300 * 300 * 4


def test_freed_weights_free_their_panels():
    w, x = torch.randn(300, 300), torch.randn(20, 300)
    f = partial(F.linear, x, w)
    warm(f)
    del w, f
    gc.collect()
    assert PACKED.nbytes() == 0


def test_memory_stats_say_it_and_empty_cache_gives_it_back():
    w, x = torch.randn(300, 300), torch.randn(20, 300)
    warm(lambda: F.linear(x, w))
    assert stats()["packed_weights"] == PACKED.nbytes()
    empty_cache()
    assert PACKED.nbytes() == 0
    check(lambda: F.linear(x, w))


def test_other_row_counts_share_panels():
    w = torch.randn(640, 576)
    for rows in (64, 65, 66, 67, 100):
        x = torch.randn(rows, 576)
        for _ in range(2):
            check(lambda x=x: F.linear(x, w))
    assert PACKED.nbytes() < 2 * w.numel() * 4


def test_threads_that_use_one_weight():
    w = torch.randn(600, 600)
    inputs = [torch.randn(20 + n, 600) for n in range(4)]
    with config.override(packed_weights_mb=0):
        want = [bits(F.linear(x, w)) for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            if bits(F.linear(inputs[number], w)) != want[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_threads_than_one_fill_the_same_panels():
    w, x = torch.randn(2000, 1000), torch.randn(700, 1000)
    warm(lambda: F.linear(x, w))
