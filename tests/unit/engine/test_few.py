"""A look where little waits: the short way to the run, and that it is the general way's equal."""

import gc
import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.engine import few, realize, watch
from rushlight.engine.listen import Listener
from rushlight.engine.undo import RISK


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setitem(vars(config), "told", {})  # settings that other tests' programs have
    gc.collect()  # values that failed in the test before
    torch.ones(2).add(1).tolist()  # the first run finds out that nobody listens
    assert watch.quiet_family() is not None and not RISK.waits


@pytest.fixture
def launched(monkeypatch):
    """Programs in the order of their runs, with the addresses of inputs and results."""
    runs = []
    run = realize.launch

    def launch(program, values, layout, inputs, results, numbers):
        places = [b.address for b in inputs], [b.address for b in results]
        runs.append((program, *places))
        return run(program, values, layout, inputs, results, numbers)

    monkeypatch.setattr(realize, "launch", launch)
    return runs


@pytest.fixture
def no_recording(monkeypatch):
    """Call it: from then on a recording is an error."""

    def forbid():
        def record(roots):
            raise AssertionError("recorded")

        monkeypatch.setattr(realize, "record", record)
        monkeypatch.setattr(realize, "_flush", record)

    return forbid


def numbers(*shape):
    return torch.tensor(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


A, B, X = numbers(64, 64), numbers(64, 64), numbers(33, 20)


def kept_between():
    y = X * 3
    z = y.sum()
    return z.item(), y


def free_input():
    x = X + 1
    x.tolist()
    y = x * 2
    del x
    return y.numpy()


def many():
    y = X
    for _ in range(few.MOST_NODES):
        y = y * 0.5 + 1
    return y.sum().item()


LOOKS = {
    "product": lambda: (A @ B).numpy(),
    "sum": lambda: X.sum().item(),
    "softmax": lambda: torch.softmax(X, 1).max().item(),
    "cumsum": lambda: torch.cumsum(X, 1).numpy(),
    "number": lambda: (X * 2.5 + 1).numpy(),
    "twice the same": lambda: (X * X).numpy(),
    "relu": lambda: torch.relu(X).numpy(),
    "view": lambda: (X.t() + X[:20, :].reshape(20, 20)[:, :1]).numpy(),
    "whole numbers": lambda: (X > 0).sum().item(),
    "kept between": kept_between,
    "free input": free_input,
    "some": lambda: ((((X + 1) * 2 - 3) * 4 + 5) * 6).sum().item(),
    "many": many,
}  # fmt: skip


def bits(found):
    if isinstance(found, tuple):
        return tuple(map(bits, found))
    return np.asarray(found.numpy() if isinstance(found, torch.Tensor) else found).tobytes()


@pytest.mark.parametrize("name", LOOKS)
def test_both_ways_give_the_same_bits(name, monkeypatch):
    look = LOOKS[name]
    short = [bits(look()) for _ in range(3)]
    monkeypatch.setattr(realize, "_compute_few", lambda node, family: False)
    assert short == [bits(look())] * 3


@pytest.mark.parametrize("name", [name for name in LOOKS if name not in ("many", "free input")])
def test_the_second_look_records_nothing(name, no_recording):
    bits(LOOKS[name]())
    no_recording()
    bits(LOOKS[name]())


def test_more_than_a_few_are_recorded(no_recording):
    LOOKS["many"]()
    no_recording()
    with pytest.raises(AssertionError, match="recorded"):
        LOOKS["many"]()
    realize.WAITING.clear()


def test_what_differs_is_another_program():
    """Sizes, dtypes, attributes, order and sameness of operands, numbers."""
    for x in (torch.arange(6.0), torch.arange(8.0), torch.arange(6), torch.arange(6.0).view(2, 3)):
        want = np.arange(x.numel()).reshape(x.shape)
        y = x + 10
        for factor in (2, 3):
            assert ((x * factor).numpy() == want * factor).all()
        assert (x - y).tolist() == (want - want - 10).tolist()
        assert (y - x).tolist() == (want - want + 10).tolist()
        assert (y - y).tolist() == (want - want).tolist()
    for shape in ((4,), (6,), (2, 3), (6,)):
        x = torch.ones(shape) * 2
        x.tolist()
        assert x.sum().item() == 2 * np.prod(shape)
    for keep in (True, False, True):
        y = X * 3
        total = y.sum()
        y = y if keep else None
        total.item()
        assert y is None or (y.numpy() == X.numpy() * np.float32(3)).all()
    x = torch.arange(6.0).view(2, 3)
    assert x.sum(0).tolist() == [3, 5, 7] and x.sum(1).tolist() == [3, 12]


@pytest.mark.parametrize("pick", [lambda t, i: t[i], lambda t, i: t.index_select(0, i)])
def test_index_errors_are_those_of_the_general_way(pick, monkeypatch):
    table = torch.arange(12.0).view(4, 3)

    def error():
        assert pick(table, torch.tensor([1, 3])).sum().item() == 42
        other = X * 5
        with pytest.raises(IndexError) as caught:
            pick(table, torch.tensor([0, 3]) + 1).sum().item()
        assert (other.numpy() == (X * 5).numpy()).all()  # others are there all the same
        return str(caught.value)

    texts = {error() for _ in range(3)}
    monkeypatch.setattr(realize, "_compute_few", lambda node, family: False)
    assert texts == {error()}


def test_memory_that_is_held_is_not_written_over(launched):
    def step(hold):
        x = X + 1
        x.tolist()
        held = hold(x)
        y = x * 2
        del x
        y.sum().item()
        (inputs, results) = launched[-1][1:]
        return held, not set(inputs).isdisjoint(results)

    want = (X + 1).numpy().copy()
    for _ in range(3):
        assert step(lambda x: None)[1]  # it is nobody's
        tensor, reused = step(lambda x: x.detach())
        assert not reused and (tensor.numpy() == want).all()
        assert (step(lambda x: x.numpy())[0] == want).all()
        view, reused = step(lambda x: x[1:])
        assert not reused and (view.numpy() == want[1:]).all()


def test_a_value_saved_for_backward_is_kept():
    for _ in range(3):
        weight = torch.ones(20, requires_grad=True)
        x = X + 1
        (x * weight).sum().item()
        y = (x * 2).detach()
        del x
        y.sum().item()
        loss = ((X + 1) * weight).sum()
        loss.item()
        loss.backward()
        assert np.allclose(weight.grad.numpy(), (X + 1).sum(0).numpy())


def test_an_array_of_numpy_is_the_tensor_memory():
    for _ in range(3):
        y = X * 2
        array = y.numpy()
        memory = y._storage.node.buffer
        assert memory.foreign and not memory.private
        array[0, 0] = 7
        assert y[0, 0].item() == 7 and (y + 1)[0, 0].item() == 8
        y.mul_(2)
        assert array[0, 0] == 14
        kept = y.numpy()
        del y
        assert (X * 2).sum().item() != 0  # takes the memory if it is free
        assert kept[0, 0] == 14 and array is not kept


def test_settings_that_change_are_seen(launched):
    def look():
        found = bits((A @ B).numpy())
        return found, launched[-1][0]

    before, program = look()
    assert look() == (before, program)
    with config.override(backend="interp"):
        assert look()[1].backend == "interp"
    assert look() == (before, program)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert look()[0] == before
    finally:
        torch.set_num_threads(threads)
    try:
        torch.set_float32_matmul_precision("medium")
        assert look()[1] is not program
    finally:
        torch.set_float32_matmul_precision("highest")
    assert look() == (before, program)


def test_a_program_that_says_a_setting_is_asked_for_it(monkeypatch):
    assert watch.quiet_family() == 0
    monkeypatch.setitem(config.told, "max_autotune", lambda: False)
    assert watch.quiet_family() is None


def test_who_listens_is_told():
    class Heard(Listener):
        runs = 0

        def run(self, run):
            self.runs += 1

    LOOKS["sum"]()
    heard = Heard()
    with watch.listening(heard):
        LOOKS["sum"]()
    assert heard.runs
    runs = heard.runs
    LOOKS["sum"]()
    assert heard.runs == runs


def test_other_programs_are_found_again(fresh_programs, monkeypatch):
    LOOKS["sum"]()
    before = fresh_programs.compiled
    LOOKS["sum"]()
    assert fresh_programs.compiled == before
    other = type(fresh_programs)()
    monkeypatch.setattr(realize, "PROGRAMS", other)
    LOOKS["sum"]()
    assert other.compiled == 1


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr(few, "MOST_KNOWN", 3)
    for size in range(2, 12):
        assert torch.ones(size).mul(3).sum().item() == 3 * size
        assert len(realize.PROGRAMS.few) <= 3


def test_no_memory_for_the_short_way_is_an_error_of_the_general_one(monkeypatch):
    LOOKS["sum"]()

    def none_left(sizes):
        raise MemoryError("none left")

    monkeypatch.setattr(realize, "allocate_all", none_left)
    y = X.sum()
    with pytest.raises(MemoryError, match="none left"):
        y.item()
    monkeypatch.undo()
    assert y.item() == LOOKS["sum"]()


def test_what_is_recorded_during_a_run_waits_for_the_next_flush(monkeypatch):
    LOOKS["sum"]()
    run, made = realize.launch, []

    def launch(*args):
        made.append(X * 9)  # as by another thread
        return run(*args)

    monkeypatch.setattr(realize, "launch", launch)
    LOOKS["sum"]()
    monkeypatch.undo()
    assert not made[0]._storage.node.leaf
    realize.flush()
    assert made[0]._storage.node.leaf == "buffer"


def test_two_threads_look_at_once():
    wrong = []

    def loop(seed):
        x = torch.arange(40.0) + seed
        for turn in range(300):
            y = x * turn
            if y.sum().item() != (780 + 40 * seed) * turn or (y - x * turn).numpy().any():
                wrong.append((seed, turn))

    threads = [threading.Thread(target=loop, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
