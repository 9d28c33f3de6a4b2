"""Classes and modes that take over calls (`__torch_function__`)."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight.overrides import (
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    has_torch_function,
)

F = torch.nn.functional


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Meters:
    """No tensor, but taken by torch's functions."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not torch.add:
            return NotImplemented
        return cls(func(*(a.value if isinstance(a, cls) else a for a in args), **(kwargs or {})))


@pytest.fixture(autouse=True)
def fresh_log():
    Logged.calls.clear()


@pytest.mark.parametrize("use", [
    lambda x: x + 1, lambda x: 1 + x, lambda x: x * x, lambda x: x.sum(), lambda x: x[0],
    lambda x: torch.relu(x), lambda x: F.softmax(x, 0), lambda x: torch.linalg.norm(x),
    lambda x: torch.stack([x, torch.ones(3)]), lambda x: x.T, lambda x: torch.split(x, 1)[0],
    lambda x: x.max(0)[0], lambda x: torch.add(torch.ones(3), other=x),
])  # fmt: skip
def test_results_of_a_class_are_of_the_class(use):
    x = torch.ones(3).as_subclass(Plain)
    assert type(use(x)) is Plain


def test_a_class_keeps_history_and_gradients():
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    out = (leaf.as_subclass(Plain) ** 2).sum()
    assert type(out) is Plain
    out.backward()
    assert leaf.grad.tolist() == [2.0, 4.0] and type(leaf.grad) is torch.Tensor


def test_a_class_sees_the_public_calls_only():
    x = torch.ones(2, 2).as_subclass(Logged)
    F.layer_norm(x, (2,))
    assert Logged.calls == ["layer_norm"]


def test_tables_made_with_the_plain_functions_still_work():
    table = {torch.add: "add", torch.nn.functional.gelu: "gelu", torch.Tensor.add: "method"}
    seen = []

    class Looks(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(table.get(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Looks)
    torch.add(x, 1), F.gelu(x), x.add(1)
    assert seen == ["add", "gelu", "method"]


def test_other_objects_take_over():
    assert torch.add(Meters(torch.ones(1)), 2).value.item() == 3
    assert has_torch_function([Meters(1)]) and not has_torch_function([torch.ones(1)])
    with pytest.raises(TypeError, match="no implementation found for"):
        torch.mul(Meters(1), 2)


def test_the_subclass_is_asked_before_its_base():
    class Base(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return cls.__name__

    class Derived(Base):
        pass

    a, b = torch.ones(1).as_subclass(Base), torch.ones(1).as_subclass(Derived)
    assert torch.add(a, b) == "Derived" and a + a == "Base"


def test_parameters_take_over_nothing():
    layer = torch.nn.Linear(2, 2)
    assert type(layer.weight + 1) is torch.Tensor
    x = torch.ones(1, 2).as_subclass(Plain)
    assert type(layer(x)) is Plain


def test_switched_off_inside_the_context():
    x = torch.ones(2).as_subclass(Plain)
    with DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
    assert type(x + 1) is Plain


def test_functions_are_copied_and_pickled_by_name():
    for function in (torch.exp, F.gelu, torch.linalg.norm, torch.stack):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy([function])[0] is function


def test_modes_see_calls_from_the_inside_out():
    seen = []

    class Mode(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    with Mode("outer"), Mode("inner"):
        torch.zeros(2).add(1)
    torch.zeros(2)
    assert seen == [
        ("inner", "zeros"), ("outer", "zeros"), ("inner", "add"), ("outer", "add"),
    ]  # fmt: skip


def test_a_mode_may_answer_something_else():
    class Ones(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return torch.ones(*args) if func is torch.zeros else func(*args, **(kwargs or {}))

    with Ones():
        assert torch.zeros(2).tolist() == [1.0, 1.0]
    assert torch.zeros(2).tolist() == [0.0, 0.0]
