"""A write that fails late leaves every tensor as it was when its line ran."""

import threading

import numpy as np
import pytest

import rushlight as torch

BAD = 3  # times 5: outside of everything here, and known only when it is computed


def bad_index(*values: int) -> torch.Tensor:
    return torch.tensor(values or (1, 5)) * BAD


def in_memory(*shape: int) -> torch.Tensor:
    made = torch.zeros(*shape) + 1
    made.tolist()
    return made


def table() -> torch.Tensor:
    return torch.arange(9.0).reshape(9, 1)


WRITES = {
    "index_put": lambda c: c.__setitem__(bad_index(), 7.0),
    "accumulate": lambda c: c.index_put_((bad_index(),), torch.tensor(2.0), accumulate=True),
    "scatter": lambda c: c.scatter_(0, bad_index(), torch.tensor([3.0, 4.0])),
    "scatter_add": lambda c: c.scatter_add_(0, bad_index(), torch.tensor([3.0, 4.0])),
    "scatter_reduce": lambda c: c.scatter_reduce_(0, bad_index(), torch.tensor([3.0, 4.0]), "amax"),
    "index_add": lambda c: c.index_add_(0, bad_index(), torch.ones(2)),
    "index_copy": lambda c: c.index_copy_(0, bad_index(), torch.ones(2)),
    "copy": lambda c: c.copy_(table()[bad_index(1, 2, 5)].sum(0).expand(9)),
    "add": lambda c: c.add_(table()[bad_index()].sum()),
    "view": lambda c: c[2:5].mul_(table()[bad_index()].sum()),
    "view_put": lambda c: c[2:5].__setitem__(bad_index(), 0.0),
    "fill": lambda c: c.__setitem__(slice(None), table()[bad_index()].sum()),
    "out": lambda c: torch.add(c, table()[bad_index()].sum(), out=c),
    "host": lambda c: c.copy_(torch.linalg.inv(torch.zeros(3, 3) + c[0] - c[0]).reshape(9)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("first", ["read", "other", "flush"])
def test_a_failed_write_is_an_error_once_and_changes_nothing(write, first) -> None:
    c, other = in_memory(9), in_memory(4)
    for round_ in range(3):
        before = (c * 1).tolist()
        version = c._version
        with pytest.raises((IndexError, RuntimeError), match=r"test_failed_writes\.py:\d+"):
            write(c)
            if first == "other":
                assert (other + round_).tolist() == [1 + round_] * 4
            if first == "flush":
                torch.flush()
            c.tolist()
        assert c.tolist() == before
        assert c._version == version
        c[1] += 2
        c[torch.tensor([3]) * 2] = 5.0
        assert c[1].item() == 3 + 2 * round_ and c[6].item() == 5


def test_what_was_written_before_stays_and_what_came_after_goes() -> None:
    c, early, late, seen = in_memory(9), in_memory(2), in_memory(2), in_memory(2)
    c.mul_(3)
    early.add_(1)
    c[bad_index()] = 7.0
    seen.add_(1)
    assert seen.tolist() == [2, 2]
    late.add_(1)
    c.add_(1)
    with pytest.raises(IndexError):
        c.tolist()
    assert c.tolist() == [3.0] * 9
    assert early.tolist() == [2, 2]
    assert late.tolist() == [1, 1]
    assert seen.tolist() == [2, 2]


def test_two_failed_writes_are_two_errors() -> None:
    a, b = in_memory(3), in_memory(3)
    a[bad_index()] = 7.0
    with pytest.raises(IndexError, match="index 3"):
        a.tolist()
    b[bad_index(2)] = 7.0
    with pytest.raises(IndexError, match="index 6"):
        torch.flush()
    assert a.tolist() == b.tolist() == [1, 1, 1]


def test_a_value_that_replaced_the_failed_one_stays() -> None:
    c = in_memory(9)
    c[bad_index()] = 7.0
    kept = c + 1
    torch.zeros(1).tolist()
    c.fill_(4)
    assert c.tolist() == [4.0] * 9
    with pytest.raises(IndexError):
        kept.tolist()
    assert c.tolist() == [4.0] * 9


def test_memory_of_the_old_value_is_not_given_away_meanwhile() -> None:
    c = in_memory(1000)
    double = c * 2
    c[torch.tensor([500]) * BAD] = 7.0
    assert (in_memory(3) + 1).tolist() == [2, 2, 2]
    assert double.tolist() == [2.0] * 1000
    with pytest.raises(IndexError):
        c.tolist()
    assert c.tolist() == [1.0] * 1000


def test_history_is_that_of_before() -> None:
    x = torch.ones(9, requires_grad=True)
    y = x * 2
    fn = y.grad_fn
    y[bad_index()] = 0.0
    assert y.grad_fn is not fn
    with pytest.raises(IndexError):
        y.tolist()
    assert y.grad_fn is fn
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 9


def test_a_failed_backward_leaves_gradients() -> None:
    model = torch.nn.Embedding(6, 3)
    good = torch.tensor([[1, 2]])
    with pytest.raises(IndexError):
        model(good * 5).sum().backward()
    assert model.weight.grad is None
    model(good).sum().backward()
    grad = model.weight.grad.tolist()
    with pytest.raises(IndexError):
        model(good * 5).sum().backward()
    assert model.weight.grad.tolist() == grad


def training(compiled: bool, optimizer_class):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.Linear(4, 2))
    optimizer = optimizer_class(model.parameters(), 0.1)
    count = torch.zeros(3)

    def step(index: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(index * scale).square().sum()
        count.add_(1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def state() -> dict:
        values = {"count": count.tolist()}
        for number, p in enumerate(model.parameters()):
            values[number] = p.tolist()
            for name, value in optimizer.state[p].items() if p in optimizer.state else ():
                values[number, name] = value.tolist()
        return values

    return (torch.compile(step) if compiled else step), state


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("at", [0, 1, 2, 4])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adagrad"])
def test_a_failed_step_leaves_model_and_optimizer(compiled, at, name) -> None:
    """The steps after a failed one are those of a training in which it never was."""
    index, one, five = torch.tensor([1, 2, 2, 5]), torch.tensor(1), torch.tensor(5)
    step, state = training(compiled, getattr(torch.optim, name))
    plain, expected = training(False, getattr(torch.optim, name))
    for number in range(6):
        if number == at:
            before = state()
            with pytest.raises(IndexError, match=r"index 10 .*size 6"):
                step(index, five).item()
            assert before.items() <= state().items()
        assert step(index, one).item() == plain(index, one).item()
        assert state() == expected()


def test_a_replay_with_a_cache_written_in_place_and_a_later_bad_index() -> None:
    """The write at `place` and the lookup are independent; neither may happen alone."""
    cache, rows = torch.zeros(8, 4), table()

    @torch.compile
    def step(place, value, index):
        cache[place] = value
        return cache.sum() + rows[index * BAD].sum()

    def call(place: int, value: float, index: int) -> float:
        return step(torch.tensor([place]), torch.full((4,), value), torch.tensor([index])).item()

    for place in range(4):
        assert call(place, 1.0, 1) == 4 * (place + 1) + 3
    before = cache.tolist()
    for wrong in [(5, 9.0, 5), (11, 9.0, 1), (2, 9.0, 4)]:
        with pytest.raises(IndexError):
            call(*wrong)
        assert cache.tolist() == before
    assert call(4, 1.0, 2) == 20 + 6


def test_an_index_that_needs_the_write_is_checked_too_late_to_write_in_place() -> None:
    for _ in range(3):
        cache = torch.zeros(8)
        cache.tolist()
        cache.index_add_(0, torch.tensor([2]) + 1, torch.tensor([4.0]))
        found = table()[cache.sum().long().reshape(1) * BAD]
        with pytest.raises(IndexError):
            found.tolist()
        assert cache.tolist() == [0, 0, 0, 4, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["index_add", "slice"])
def test_a_check_that_comes_late_comes_before_the_write(kind) -> None:
    """Nothing but the order of the plan keeps the write from running first."""
    cache, weight = in_memory(8), torch.eye(3) * 2

    @torch.compile
    def step(x):
        if kind == "slice":
            cache[2:4] = cache[2:4] + 1
        else:
            cache.index_add_(0, torch.tensor([2, 3]), torch.ones(2))
        for _ in range(3):
            x = torch.softmax(x @ weight, -1) * x
        return table()[x.sum().long().reshape(1, 1)].sum()

    for count in range(1, 5):
        assert step(torch.zeros(4, 3)).item() == 0
        assert cache.tolist() == [1, 1, 1 + count, 1 + count, 1, 1, 1, 1]
    before = cache.tolist()
    for _ in range(2):
        with pytest.raises(IndexError):
            step(torch.full((4, 3), 1e4)).item()
        assert cache.tolist() == before


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_a_host_function_that_refuses_leaves_what_it_was_to_change(name) -> None:
    """At once in ordinary code, late in a captured call."""
    function = getattr(torch.linalg, name)
    matrix, cache = in_memory(3, 3), in_memory(6)

    def step(factor: torch.Tensor) -> torch.Tensor:
        cache[torch.tensor([1]) * 2] = 3.0
        matrix.copy_(function(torch.eye(3) * factor))
        cache.add_(1)
        return cache.sum()

    for run in (step, torch.compile(step)):
        for _ in range(4):
            run(torch.tensor(1.0))
            before = matrix.tolist(), cache.tolist()
            message = rf"linalg.{name}: .*recorded at .*failed_writes"
            with pytest.raises(torch.linalg.LinAlgError, match=message):
                run(torch.tensor(0.0)).item()
            assert matrix.tolist() == before[0]
            if run is not step:  # a replay changes nothing at all
                assert cache.tolist()[3:] == before[1][3:]


def test_another_thread_keeps_what_it_wrote() -> None:
    c, mine = in_memory(9), in_memory(2)
    c[bad_index()] = 7.0
    thread = threading.Thread(target=lambda: mine.add_(1))
    thread.start()
    thread.join()
    with pytest.raises(IndexError):
        c.tolist()
    assert mine.tolist() == [2, 2]


def test_memory_of_others_is_written_only_when_the_value_is_there() -> None:
    array = np.ones(9, np.float32)
    c = torch.from_numpy(array)
    with pytest.raises(IndexError):
        c[torch.tensor([2, 5]) * BAD] = 3.0
    with pytest.raises(IndexError):
        c.copy_(table()[bad_index(1, 2, 5)].sum(0).expand(9))
    assert array.tolist() == [1.0] * 9 and c.grad_fn is None
    c.add_(1)
    assert array.tolist() == [2.0] * 9
