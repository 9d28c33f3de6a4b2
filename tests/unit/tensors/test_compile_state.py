"""Python state of many kinds changes between calls: a compiled function never shows old values.

Each case gives a function and changes; after each change the compiled function must agree with the
plain one, also when it is called again. `replays` says that the case can be replayed at all.
"""

import collections
import dataclasses
import enum
import functools
import types
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight.engine.checks import PLAIN_TIMES
from tests.unit.tensors.compile_checks import array

nn = torch.nn
X = array(3)
W = array(3, seed=4)
MODE = {"table": [1.0, {"deep": (2.0, [3.0])}]}
lib = types.ModuleType("lib")


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    names: list = dataclasses.field(default_factory=list)


class Slots:
    __slots__ = ("value", "__weakref__")


class Base:
    gain = 1.0

    def apply(self, x):
        return x * self.gain

    @classmethod
    def shifted(cls, x):
        return x + cls.gain

    @staticmethod
    def fixed(x):
        return x * MODE["table"][0]


class Derived(Base):
    @property
    def twice(self):
        return self.gain * 2

    def __call__(self, x):
        return super().apply(x) + self.twice

    def __getattr__(self, name):
        if name == "made_up":
            return self.__dict__["hidden"]
        raise AttributeError(name)


class Kind(enum.Enum):
    ADD = 1
    MUL = 2


def case_deep_containers():
    def f(x):
        return x * MODE["table"][1]["deep"][1][0]

    return f, [lambda: MODE["table"][1]["deep"][1].__setitem__(0, 9.0),
               lambda: MODE["table"].__setitem__(1, {"deep": (0, [4.0])})]  # fmt: skip


def case_numpy_array():
    values = np.array([1.0, 2.0])

    def f(x):
        return x * float(values[0])

    return f, [lambda: values.__setitem__(0, 5.0)]


def case_slots():
    holder = Slots()
    holder.value = 2.0

    def f(x):
        return x * holder.value

    return f, [lambda: setattr(holder, "value", 3.0)]


def case_dataclass():
    config = Config()

    def f(x):
        return x * config.scale + len(config.names)

    return f, [lambda: setattr(config, "scale", 2.0), lambda: config.names.append("a")]


def case_methods_and_properties():
    thing = Derived()

    def f(x):
        return thing(x) + thing.shifted(x) + thing.fixed(x)

    return f, [
        lambda: setattr(thing, "gain", 3.0),
        lambda: setattr(Base, "gain", 7.0),
        lambda: delattr(thing, "gain"),
        lambda: setattr(Derived, "gain", 2.0),
        lambda: (delattr(Derived, "gain"), setattr(Base, "gain", 1.0)),
    ]


def case_getattr_hook():
    thing = Derived()
    thing.hidden = 2.0

    def f(x):
        return x * thing.made_up

    return f, [lambda: setattr(thing, "hidden", 4.0)]


def case_computed_names():
    thing = Config()
    thing.part0, thing.part1 = 1.0, 2.0

    def f(x):
        return sum(getattr(thing, f"part{i}") for i in range(2)) * x

    return f, [lambda: setattr(thing, "part1", 5.0)]


def case_function_replaced():
    def first(x):
        return x + 1

    lib.function = first

    def f(x):
        return lib.function(x) * 2

    def other(x):
        return x - 1

    return f, [lambda: setattr(lib, "function", other), lambda: setattr(lib, "function", torch.exp)]


def case_code_replaced():
    def helper(x):
        return x + 1

    def other(x):
        return x - 1

    def f(x):
        return helper(x)

    return f, [lambda: setattr(helper, "__code__", other.__code__)]


def case_partial_and_cache():
    box = [2.0]

    @functools.cache
    def scale(n):
        return n * 2

    f = functools.partial(lambda k, x: x * scale(k) + box[0], 3.0)
    return f, [lambda: box.__setitem__(0, 4.0), lambda: scale.cache_clear()]


def test_caches_of_impure_functions_are_not_replayed():
    box = [2.0]

    @functools.cache
    def scale(n):
        return n * box[0]

    def f(x):
        return x * scale(3)

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (2.0, 2.0, 2.0, 2.0, 5.0, 6.0):
            box[0] = value
            scale.cache_clear()
            f(X)
            assert run(X).tolist() == f(X).tolist()


def case_sets_deques_and_defaults():
    names, queue = {1, 2}, collections.deque([1.0])
    table = collections.defaultdict(float)

    def f(x):
        return x * len(names) + queue[0] + table.get("a", 0.5) + (3 in names)

    return f, [
        lambda: names.add(3),
        lambda: queue.appendleft(4.0),
        lambda: table.__setitem__("a", 2.0),
        lambda: (names.remove(1), names.add(9)),
    ]


def case_enum():
    box = [Kind.ADD]

    def f(x):
        return x + 2 if box[0] is Kind.ADD else x * 2

    return f, [lambda: box.__setitem__(0, Kind.MUL)]


def case_tensor_rebound():
    def f(x):
        return x * W

    return f, [
        lambda: globals().__setitem__("W", array(3, seed=8)),
        lambda: W.add_(1),
        lambda: globals().__setitem__("W", torch.tensor(2.0)),
    ]


def case_tensor_attribute():
    weight = array(3)
    weight.scale = 2.0

    def f(x):
        return x * weight * weight.scale

    return f, [lambda: setattr(weight, "scale", 3.0)]


def case_tensor_attribute_appears():
    weight = array(3)

    def f(x):
        return x * weight * getattr(weight, "gain", 1)

    return f, [lambda: setattr(weight, "gain", 3), lambda: delattr(weight, "gain")]


def case_method_of_an_object_of_ours_is_hidden():
    layer = nn.Linear(3, 3)
    return lambda x: layer(x).detach(), [
        lambda: setattr(layer, "forward", lambda x: x + 7),
        lambda: delattr(layer, "forward"),
    ]


def case_attribute_of_a_layer_appears():
    layer = nn.Linear(3, 3)

    def f(x):
        try:
            return (layer(x) * layer.factor).detach()
        except AttributeError:
            return layer(x).detach()

    return f, [lambda: setattr(layer, "factor", 3.0), lambda: delattr(layer, "factor")]


def case_class_of_an_object():
    layer, other = nn.Sequential(nn.ReLU()), Base()

    def f(x):
        return other.apply(layer(x))

    return f, [
        lambda: setattr(layer[0], "__class__", nn.Tanh),
        lambda: setattr(other, "__class__", type("Other", (), {"apply": lambda self, x: x - 1})),
    ]


def case_hooks_of_all_modules():
    layer = nn.Linear(3, 3)
    handles = []
    register = nn.modules.module.register_module_forward_hook
    changes = [
        lambda: handles.append(register(lambda module, inputs, out: out * 2)),
        lambda: handles.pop().remove(),
    ]
    return lambda x: layer(x).detach(), changes


def case_hooks_of_all_optimizers():
    weight, calls = nn.Parameter(array(3)), []
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def f(x):
        with torch.no_grad():
            weight.fill_(1.0)
        weight.grad = None
        (weight * x).sum().backward()
        optimizer.step()
        return weight.detach() * 1

    def stop(optimizer, args, kwargs):
        weight.grad.zero_()

    register = torch.optim.optimizer.register_optimizer_step_pre_hook
    return f, [lambda: calls.append(register(stop)), lambda: calls.pop().remove()]


def case_shape_of_an_array():
    numbers = np.arange(6.0)
    return lambda x: x * len(numbers), [lambda: setattr(numbers, "shape", (2, 3))]


def case_gradient_is_looked_at():
    weight = nn.Parameter(array(3))

    def f(x):
        return x * 2 if weight.grad is None else x + weight.grad

    return f, [lambda: setattr(weight, "grad", array(3, seed=2)), lambda: weight.grad.add_(1),
               lambda: setattr(weight, "grad", None)]  # fmt: skip


def case_nonlocal():
    count = 1.0

    def change():
        nonlocal count
        count += 1

    def f(x):
        return x * count

    return f, [change, change]


def case_global_shadows_builtin():
    def f(x):
        return x * max(2, 3)

    return f, []


def case_absent_then_present():
    box = types.SimpleNamespace()

    def f(x):
        try:
            return x * box.late
        except AttributeError:
            return x - 1

    return f, [lambda: setattr(box, "late", 3.0), lambda: delattr(box, "late")]


def case_function_of_own_autograd():
    factor = [2.0]

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor[0]

        @staticmethod
        def backward(ctx, grad):
            return grad * factor[0]

    weight = nn.Parameter(array(3))

    def f(x):
        weight.grad = None
        Scaled.apply(x * weight).sum().backward()
        return weight.grad * 1

    return f, [lambda: factor.__setitem__(0, 5.0)]


CASES = {name[5:]: make for name, make in list(globals().items()) if name.startswith("case_")}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_seen(name):
    f, changes = CASES[name]()
    run = torch.compile(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(PLAIN_TIMES + 5):  # so often that comparisons are code
            assert run(X).tolist() == f(X).tolist()
        before = run.replays
        for number, change in enumerate(changes):
            change()
            for _ in range(3):
                assert run(X).tolist() == f(X).tolist(), number
    assert before >= 1, [str(w.message) for w in caught]


def test_objects_given_as_arguments_are_guarded():
    run = torch.compile(lambda x, config: x * config.scale)
    config = Config()
    for scale in (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0):
        config.scale = scale
        assert run(X, config).tolist() == (X * scale).tolist()
    assert run.replays >= 2
    assert run(X, Config(5.0)).tolist() == (X * 5).tolist()


def test_modes_are_part_of_the_call():
    weight = nn.Parameter(array(3))
    run = torch.compile(lambda x: (x * weight).requires_grad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            assert run(X) is True
            with torch.no_grad():
                assert run(X) is False


def test_numbers_that_are_equal_but_different():
    run = torch.compile(lambda x, n: (x * n, type(n).__name__))
    for n in (1, True, 1.0, 0.0, -0.0) * 4:
        got, kind = run(X, n)
        assert kind == type(n).__name__
        assert str((X * n).tolist()) == str(got.tolist())


@pytest.mark.parametrize("value", [2, 3.5, array(3)])
def test_attributes_of_arguments_are_seen(value):
    f = lambda x: x * getattr(x, "gain", 1)  # noqa: E731
    run = torch.compile(f)
    for turn in range(PLAIN_TIMES + 9):
        x = X + turn
        if turn % 4 == 3:
            x.gain = value
        assert run(x).tolist() == f(x).tolist()
    assert run.replays >= 3


@pytest.mark.parametrize("which", ["argument", "result"])
def test_a_call_that_gives_a_tensor_an_attribute_runs(which):
    def f(x):
        y = x * 2
        (x if which == "argument" else y).gain = 3
        return y

    run = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            x = X + 1
            y = run(x)
            assert (x if which == "argument" else y).gain == 3


def test_the_default_device_is_part_of_the_call():
    run = torch.compile(lambda: torch.zeros(3))
    for _ in range(PLAIN_TIMES + 4):
        assert run().device.type == "cpu"
    with torch.device("meta"):
        assert run().device.type == "meta"
    assert run().device.type == "cpu"


class Whole(int):
    pass


class Text(str):
    pass


class Items(list):
    pass


class Names(dict):
    pass


class Fixed(tuple):
    pass


def with_rate(value, rate):
    value.rate = rate
    return value


@pytest.mark.parametrize("kind", [Whole, Text, Items, Names, Fixed])
def test_attributes_of_numbers_and_containers_of_a_users_class_are_seen(kind):
    class Holder:
        value = with_rate(kind(), 1)

    compiled = torch.compile(lambda x: x + Holder.value.rate)
    for _ in range(12):
        assert compiled(torch.zeros(1)).item() == 1
    Holder.value.rate = 5
    assert compiled(torch.zeros(1)).item() == 5


@pytest.mark.parametrize("kind", [Whole, Text])
def test_an_argument_that_is_a_number_of_a_users_class_is_more_than_its_value(kind):
    compiled = torch.compile(lambda x, value: x + value.rate)
    first = with_rate(kind(), 1)
    for value, want in [(first, 1), (with_rate(kind(), 2), 2), (first, 1)]:
        for _ in range(6):
            assert compiled(torch.zeros(1), value).item() == want
    first.rate = 7
    assert compiled(torch.zeros(1), first).item() == 7


def test_complex_arguments_whose_zeros_have_other_signs_are_others():
    compiled = torch.compile(lambda x, c: 1 / (x * c.imag))
    for imag in (0.0, -0.0):
        want = (1 / torch.tensor([imag])).tolist()
        for _ in range(6):
            assert compiled(torch.ones(1), complex(1, imag)).tolist() == want
