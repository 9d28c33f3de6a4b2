"""Functions: what they read is guarded, what cannot be guarded is not replayed."""

import collections
import random
import time
import types
import typing
import warnings

import numpy as np
import pytest

import rushlight as torch
from tests.unit.tensors.compile_checks import array

nn = torch.nn
SCALE = 2.0
NUMBERS = [1.0, 2.0]
TABLE = {"a": 3.0}
CALLS = 0
space = types.ModuleType("space")
space.factor = 1.0


def calls(run, *args, count=6):
    return [run(*args) for _ in range(count)]


def scaled(x):
    return x * SCALE + NUMBERS[1] + TABLE["a"]


def test_globals_lists_and_dicts_are_guarded(monkeypatch):
    run = torch.compile(scaled, fullgraph=True)
    x = array(3)
    calls(run, x)
    assert run.replays >= 3
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert run(x).tolist() == scaled(x).tolist()
    monkeypatch.setitem(TABLE, "a", -1.0)
    assert run(x).tolist() == scaled(x).tolist()
    NUMBERS[1] = 7.0
    assert run(x).tolist() == scaled(x).tolist()
    before = run.replays
    calls(run, x)
    assert run.replays == before + 6


def test_closures_defaults_and_attributes_are_guarded():
    class Settings:
        bias = 1.0

    settings, factor = Settings(), 2.0

    def f(x, shift=[0.5]):  # noqa: B006
        return x * factor + settings.bias + shift[0]

    run = torch.compile(f, fullgraph=True)
    x = array(3)

    def same():
        return run(x).tolist() == f(x).tolist()

    calls(run, x)
    assert run.replays >= 3
    factor = 3.0
    assert same()
    Settings.bias = 4.0
    assert same()
    settings.bias = 5.0
    assert same()
    f.__defaults__[0][0] = 9.0
    assert same()
    del settings.bias
    assert same()


def test_helpers_and_modules_are_followed(monkeypatch):
    def helper(x):
        return x + space.factor

    def f(x):
        return helper(x) * 2

    run = torch.compile(f, fullgraph=True)
    x = array(3)
    calls(run, x)
    assert run.replays >= 3
    space.factor = 10.0
    assert run(x).tolist() == f(x).tolist()
    assert run(x).tolist() == f(x).tolist()


def test_unrelated_state_does_not_stop_replays():
    class Trainer:
        def __init__(self):
            self.weight, self.losses = array(3), []

        def step(self):
            return self.weight * 2

    trainer = Trainer()
    run = torch.compile(trainer.step, fullgraph=True)
    for _ in range(8):
        trainer.losses.append(run().sum().item())
    assert run.replays >= 5


@pytest.mark.parametrize(
    "name,body",
    [
        ("random", lambda x: x * random.random()),
        ("time", lambda x: x + 0 * time.time()),
        ("print", lambda x: (print(end=""), x * 2)[1]),
        ("item", lambda x: x * x.sum().item()),
        ("open", lambda x: (open(__file__).close(), x * 2)[1]),
        ("branch", lambda x: x * 2 if x.sum() > 0 else x),
        ("import", lambda x: x * __import__("math").pi),
    ],
)
def test_what_cannot_be_repeated_warns_and_runs(name, body):
    run = torch.compile(body)
    x = array(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = calls(run, x)
    assert run.replays == 0 and len(caught) == 1, [str(w.message) for w in caught]
    assert "test_compile_functions.py" in str(caught[0].message)
    if name in ("print", "branch", "item"):
        assert all(r.tolist() == body(x).tolist() for r in results)
    strict = torch.compile(body, fullgraph=True)
    with pytest.raises(RuntimeError, match="cannot be replayed"):
        calls(strict, x)


def test_methods_of_arrays_of_others_are_named():
    """Their owner has no truth value when it is compared."""
    numbers = np.arange(3.0)
    run = torch.compile(lambda x: x * float(numbers.sum()))
    with pytest.warns(match="it calls ndarray.sum"):
        assert run(array(3)).tolist() == (array(3) * 3.0).tolist()


def test_a_counter_is_counted_in_every_call():
    def f(x):
        global CALLS
        CALLS += 1
        return x * 2

    run = torch.compile(f)
    before = CALLS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls(run, array(3), count=9)
    assert CALLS == before + 9 and run.replays == 0


def test_lists_that_are_appended_to_grow():
    kept = []

    def f(x):
        y = x * 2
        kept.append(y)
        return y

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls(run, array(3), count=7)
    assert len(kept) == 7 and all(k.tolist() == (array(3) * 2).tolist() for k in kept)


def test_a_list_given_as_argument_may_be_filled():
    def f(x, out):
        out.append(x * 2)
        return x + 1

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(6):
            out = []
            run(array(3, seed=i), out)
            assert [t.tolist() for t in out] == [(array(3, seed=i) * 2).tolist()]


def test_iterators_and_generators_are_not_replayed():
    numbers = iter(range(100))

    def f(x):
        for number in numbers:
            return x + number

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [t.item() for t in calls(run, torch.tensor(0.0))] == [0, 1, 2, 3, 4, 5]


def test_shapes_dtypes_and_numbers_as_arguments():
    def f(x, power, flag=True):
        return (x**power).sum(0) if flag else x

    run = torch.compile(f)
    for i in range(4):
        for x in (array(3, 2), array(5, 2), array(5, 2).double()):
            for power in (2, 3.0):
                assert run(x, power).tolist() == f(x, power).tolist(), i
    assert run.replays > 0


def test_arguments_that_are_views():
    data = array(10, 4)

    def f(x):
        return x * 2 + 1

    run = torch.compile(f, fullgraph=True)
    for start in (0, 2, 4, 6, 1, 3, 5):
        x = data[start : start + 4]
        assert run(x).tolist() == f(x).tolist()
    assert run.replays >= 3
    assert run(data.t()[:, :4]).tolist() == f(data.t()[:, :4]).tolist()


def test_view_argument_written_in_place():
    def f(x):
        x.add_(1)
        return x * 2

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, copy = array(10, 4), array(10, 4)
        for start in (0, 2, 4, 6, 1, 3):
            assert run(data[start : start + 2]).tolist() == f(copy[start : start + 2]).tolist()
            assert data.tolist() == copy.tolist()


def test_arguments_changed_in_place_and_returned():
    def f(x, y):
        x.add_(y)
        return x, y * 2, x * 3

    run = torch.compile(f, fullgraph=True)
    for i in range(6):
        x, y, z = array(3, seed=i), array(3, seed=i + 1), array(3, seed=i)
        out = run(x, y)
        want = f(z, y)
        assert out[0] is x and x.tolist() == z.tolist()
        assert [t.tolist() for t in out] == [t.tolist() for t in want]
        x.add_(1)
        assert out[0].tolist() == x.tolist()
    assert run.replays >= 3


def test_aliased_arguments_and_globals():
    weight = array(3)

    def f(x, y):
        x.mul_(2)
        return x + y + weight

    run = torch.compile(f, fullgraph=True)
    for i in range(5):
        x, y = array(3, seed=i), array(3, seed=9)
        w = weight.clone()
        assert run(x, y).tolist() == (array(3, seed=i) * 2 + y + w).tolist()
    for i in range(5):  # one tensor given twice
        x = array(3, seed=i)
        assert run(x, x).tolist() == (array(3, seed=i) * 4 + weight).tolist()
    for _ in range(4):  # the tensor that the function reads itself
        before = weight.clone()
        y = array(3, seed=9)
        assert run(weight, y).tolist() == (before * 2 + y + before * 2).tolist()
        assert weight.tolist() == (before * 2).tolist()
    x = array(3, seed=1)
    assert run(x, y).tolist() == (array(3, seed=1) * 2 + y + weight).tolist()


def test_one_tensor_captured_as_argument_first():
    weight = array(3)

    def f(x):
        return x * 2 + weight

    run = torch.compile(f, fullgraph=True)
    calls(run, weight)
    other = array(3, seed=5)
    for _ in range(4):
        assert run(other).tolist() == (other * 2 + weight).tolist()


def test_equal_values_in_shared_memory_are_told_apart():
    first = array(3)
    second = first.clone()

    def f():
        return second * 2

    run = torch.compile(f, fullgraph=True)
    calls(run)
    first.add_(1)
    assert run().tolist() == (array(3) * 2).tolist()
    second.add_(5)
    assert run().tolist() == ((array(3) + 5) * 2).tolist()


def test_memory_that_somebody_kept_is_not_overwritten():
    weight = array(40)

    def f():
        weight.add_(1)
        return weight.sum()

    run = torch.compile(f, fullgraph=True)
    calls(run)
    kept = weight.clone()
    text = kept.tolist()
    calls(run)
    assert kept.tolist() == text and run.replays >= 6


def test_number_tensors_are_inputs():
    scale = torch.tensor(2.0)
    zero = torch.zeros(())

    def f(x):
        return x * scale + zero

    run = torch.compile(f, fullgraph=True)
    x = array(3)
    calls(run, x)
    scale.fill_(3.0)
    assert run(x).tolist() == (x * 3).tolist()
    zero.add_(1)
    assert run(x).tolist() == (x * 3 + 1).tolist()
    for number in (1.0, 4.0, 5.0):
        assert torch.compile(lambda a: a * 2)(torch.tensor(number)).item() == number * 2
    double = torch.compile(lambda a: a * 2)
    assert [double(torch.tensor(float(i))).item() for i in range(6)] == [0, 2, 4, 6, 8, 10]


def test_assignments_without_arithmetic_are_repeated():
    source, target, other = array(3), array(3, seed=1), array(3, seed=2)

    def f(x):
        target.copy_(source)
        other.zero_()
        return x + 1

    run = torch.compile(f, fullgraph=True)
    for i in range(6):
        source.add_(1)
        other.add_(3)
        run(array(3))
        assert target.tolist() == source.tolist() and other.tolist() == [0, 0, 0], i
        target.add_(1)
        assert target.tolist() == (source + 1).tolist()
    assert run.replays >= 2


def test_random_numbers_advance_as_in_eager():
    def f(x):
        torch.rand(3)  # drawn, then dropped
        return nn.functional.dropout(x, 0.5) + torch.randn(3)

    run = torch.compile(f, fullgraph=True)
    torch.manual_seed(1)
    want = [f(array(3)).tolist() for _ in range(7)] + [torch.rand(1).item()]
    torch.manual_seed(1)
    got = [run(array(3)).tolist() for _ in range(7)] + [torch.rand(1).item()]
    assert got == want and run.replays >= 4
    torch.manual_seed(1)
    assert run(array(3)).tolist() == want[0]
    generator = torch.Generator().manual_seed(5)
    draw = torch.compile(lambda: torch.rand(2, generator=generator))
    assert len({tuple(draw().tolist()) for _ in range(6)}) == 6


def test_seeds_set_inside_are_not_replayed():
    def f():
        torch.manual_seed(3)
        return torch.rand(2)

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len({tuple(run().tolist()) for _ in range(6)}) == 1


def test_outputs_that_are_views_containers_and_python_values():
    def f(x):
        y = x * 2
        return {"t": y.t(), "rows": [y[0], y[1:]], "n": (x.shape[0], "text"), "x": x.reshape(-1)}

    run = torch.compile(f, fullgraph=True)
    for i in range(6):
        x = array(3, 4, seed=i)
        got, want = run(x), f(x)
        assert got["t"].stride() == want["t"].stride() and got["n"] == (3, "text")
        for key in ("t", "x"):
            assert got[key].tolist() == want[key].tolist()
        assert [r.tolist() for r in got["rows"]] == [r.tolist() for r in want["rows"]]
        got["t"].add_(1)  # one storage behind three outputs
        assert got["rows"][0].tolist() == (want["rows"][0] + 1).tolist()
        got["x"].mul_(2)  # memory of the argument
        assert x.reshape(-1).tolist() == got["x"].tolist()
    assert run.replays >= 3


def test_exceptions_leave_things_as_eager_does():
    weight = array(3)

    def f(x, fail):
        weight.add_(1)
        if fail:
            raise ValueError("stop")
        return x + weight

    run = torch.compile(f, fullgraph=True)
    for i in range(12):
        before = weight.tolist()
        if i % 4 == 3:
            with pytest.raises(ValueError, match="stop"):
                run(array(3), True)
        else:
            assert run(array(3), False).tolist() == (array(3) + weight).tolist()
        assert weight.tolist() == (torch.tensor(before) + 1).tolist()


def test_index_out_of_range_in_a_replay_is_an_error_and_changes_nothing():
    weight, table = array(3), array(4, 3)

    def f(index):
        weight.add_(table[index].sum(0))
        return weight * 2

    run = torch.compile(f, fullgraph=True)
    for _ in range(5):
        run(torch.tensor([0, 3]))
    assert run.replays >= 2
    before = weight.tolist()
    with pytest.raises(IndexError):
        run(torch.tensor([0, 4])).tolist()
    assert weight.tolist() == before
    run(torch.tensor([0, 1]))
    assert weight.tolist() == (torch.tensor(before) + table[:2].sum(0)).tolist()


def test_constants_made_from_python_data():
    def f(x):
        return x[[0, 2]] * torch.tensor([1.0, 2.0])

    run = torch.compile(f, fullgraph=True)
    for i in range(5):
        x = array(3, seed=i)
        assert run(x).tolist() == f(x).tolist()
    assert run.replays >= 2


def test_memory_shared_with_numpy():
    import numpy as np

    memory = np.ones(3, np.float32)
    x = torch.from_numpy(memory)
    run = torch.compile(lambda: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(6):
            memory[:] = i
            assert run().tolist() == [2.0 * i] * 3


def test_modules_inference_and_gradients_outside():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    run = torch.compile(model)
    x = array(3, 4)
    assert isinstance(run, nn.Module) and run._orig_mod is model and run[0] is model[0]
    with torch.no_grad():
        for _ in range(6):
            assert run(x).tolist() == model(x).tolist()
    assert run._compiled.replays >= 3
    run(x).sum().backward()  # differentiated outside: lazy, and right
    got = model[0].weight.grad.tolist()
    model.zero_grad()
    model(x).sum().backward()
    assert got == model[0].weight.grad.tolist()


def test_backward_of_history_from_before_the_call():
    weight = nn.Parameter(array(3))
    loss = [None]

    def f():
        loss[0].backward()
        return weight.grad * 2

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(6):
            weight.grad = None
            loss[0] = (weight * float(i)).sum()
            assert run().tolist() == [2.0 * i] * 3


def test_nested_compiled_functions_and_methods():
    inner = torch.compile(lambda x: x * SCALE)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(array(3))
            self.gain = 2.0

        @property
        def both(self):
            return self.gain * 2

        def forward(self, x):
            return inner(x * self.weight) * self.both

    model = Model()
    run = torch.compile(model)
    with torch.no_grad():
        for gain in (2.0, 2.0, 2.0, 2.0, 5.0, 5.0):
            model.gain = gain
            want = array(3) * model.weight * SCALE * gain * 2
            assert run(array(3)).tolist() == want.tolist()
    assert run._compiled.replays >= 1


def test_decorator_and_disable():
    @torch.compile(dynamic=True)
    def f(x):
        return x + 1

    assert f(torch.ones(2)).tolist() == [2, 2] and f.__name__ == "f"
    assert torch.compile(len, disable=True) is len
    with pytest.raises(TypeError, match="callable"):
        torch.compile(3)


Pair = collections.namedtuple("Pair", "sum product")


class Typed(typing.NamedTuple):
    sum: object
    product: object


@pytest.mark.parametrize("kind", [Pair, Typed])
def test_named_tuples_are_made_and_read(kind):
    def f(x, y):
        pair = kind(x + y, x * y)
        return kind(pair.product - pair.sum, pair[0])

    run = torch.compile(f, fullgraph=True)
    for i in range(5):
        x, y = array(3, seed=i), array(3, seed=i + 1)
        found, wanted = run(x, y), f(x, y)
        assert isinstance(found, kind) and found.sum.tolist() == wanted.sum.tolist()
        assert found.product.tolist() == wanted.product.tolist()
    assert run.replays >= 2
