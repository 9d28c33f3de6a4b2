"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import rushlight as torch

nn = torch.nn


def relus(count):
    return [nn.ReLU() for _ in range(count)]


def test_sequential_acts_as_a_list():
    model = nn.Sequential(*relus(3))
    a, b, c = model
    assert len(model) == 3 and model[-1] is c
    assert list(model[1:]) == [b, c] and list(model[1:]._modules) == ["1", "2"]
    model.append(nn.Tanh())
    assert model.pop(0) is a and list(model._modules) == ["0", "1", "2"]
    model.insert(1, nn.Sigmoid())
    model[0] = nn.GELU()
    names = [type(module).__name__ for module in model]
    assert names == ["GELU", "Sigmoid", "ReLU", "Tanh"]
    del model[1:3]
    assert len(model) == 2 and len(model + model) == 4 and len(model * 3) == 6
    model += nn.Sequential(nn.ReLU())
    model *= 2
    assert len(model) == 6 and list(model._modules) == list("012345")
    with pytest.raises(IndexError, match="index 6 is out of range"):
        model[6]


def test_sequential_takes_names_and_runs_in_order():
    model = nn.Sequential(OrderedDict([("down", nn.Linear(4, 2)), ("up", nn.Linear(2, 3))]))
    assert model.down is model[0]
    assert model(torch.zeros(1, 4)).shape == (1, 3)


def test_module_list_acts_as_a_list():
    modules = nn.ModuleList(relus(2))
    modules.append(nn.Tanh()).extend(relus(1))
    modules.insert(0, nn.Sigmoid())
    names = [type(module).__name__ for module in modules]
    assert names == ["Sigmoid", "ReLU", "ReLU", "Tanh", "ReLU"]
    assert isinstance(modules[1:3], nn.ModuleList) and len(modules[1:3]) == 2
    del modules[0]
    assert isinstance(modules.pop(-1), nn.ReLU)
    assert list(modules._modules) == ["0", "1", "2"]
    assert len(modules + relus(1)) == 4
    modules += relus(2)
    assert len(modules) == 5


def test_module_list_repr_joins_equal_neighbors():
    modules = nn.ModuleList([*relus(3), nn.Tanh()])
    assert repr(modules) == "ModuleList(\n  (0-2): 3 x ReLU()\n  (3): Tanh()\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict_acts_as_a_dict():
    modules = nn.ModuleDict({"a": nn.ReLU()})
    modules.update([("b", nn.Tanh())])
    modules["c"] = nn.Sigmoid()
    assert list(modules) == ["a", "b", "c"] and "b" in modules and len(modules) == 3
    assert isinstance(modules.pop("b"), nn.Tanh)
    del modules["a"]
    assert list(modules.keys()) == ["c"] and len(list(modules.items())) == 1
    modules.clear()
    assert len(modules) == 0


def test_parameter_list_acts_as_a_list():
    values = nn.ParameterList([torch.zeros(2), nn.Parameter(torch.zeros(3)), "text"])
    assert isinstance(values[0], nn.Parameter) and values[2] == "text"
    values.append(torch.ones(1))
    values[0] = torch.ones(4)
    assert [name for name, _ in values.named_parameters()] == ["0", "1", "3"]
    assert len(values[1:]) == 3 and len(list(values)) == 4
    values += [torch.ones(1)]
    assert len(values) == 5


def test_parameter_dict_acts_as_a_dict():
    values = nn.ParameterDict({"a": torch.zeros(2)})
    values["b"] = torch.ones(1)
    assert [name for name, _ in values.named_parameters()] == ["a", "b"]
    assert values.setdefault("c", torch.ones(1)).shape == (1,)
    assert values.popitem()[0] == "c" and values.get("x", 3) == 3
    assert list(values | nn.ParameterDict({"d": torch.zeros(1)})) == ["a", "b", "d"]
    assert list(nn.ParameterDict.fromkeys(["x", "y"], 1).values()) == [1, 1]
    assert values.pop("a").shape == (2,) and list(reversed(values)) == ["b"]
    values.clear()
    assert len(values) == 0 and list(values.parameters()) == []
