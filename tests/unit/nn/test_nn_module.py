"""Module: registration, names, conversion, state dicts, hooks, copies."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import pytest

import rushlight as torch

nn = torch.nn


class Leaf(nn.Module):
    def __init__(self, size=2):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)

    def forward(self, x, factor=1):
        return x * self.scale * factor


def test_attribute_moves_between_registries():
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter(torch.zeros(1))
    assert "x" in module._parameters and "x" not in module.__dict__
    module.x = None
    assert module._parameters["x"] is None
    del module.x
    module.x = nn.ReLU()
    assert list(module._modules) == ["x"]
    module.x = None
    del module.x
    module.x = nn.Buffer(torch.ones(1), persistent=False)
    assert "x" in module._buffers and "x" in module._non_persistent_buffers_set
    module.x = torch.zeros(2)
    assert module._buffers["x"].tolist() == [0, 0]
    del module.x
    assert not module._non_persistent_buffers_set
    assert not hasattr(module, "x")


def test_assigning_a_parameter_over_a_buffer_forgets_the_buffer():
    module = Leaf()
    module.count = nn.Parameter(torch.ones(1))
    assert list(module.state_dict()) == ["scale", "count"]


def test_dir_shows_registered_names_and_no_numbers():
    names = dir(nn.Sequential(Leaf()))
    assert "0" not in names and "forward" in names and "training" in names
    assert {"scale", "count"} <= set(dir(Leaf()))


def test_tied_parameters_are_listed_once():
    model = nn.Sequential(Leaf(), Leaf())
    model[1].scale = model[0].scale
    assert [name for name, _ in model.named_parameters()] == ["0.scale"]
    every = model.named_parameters(remove_duplicate=False)
    assert [name for name, _ in every] == ["0.scale", "1.scale"]
    assert list(model.state_dict()) == ["0.scale", "0.count", "1.scale", "1.count"]


def test_find_by_dotted_name():
    model = nn.Sequential(nn.Sequential(Leaf()))
    assert model.get_submodule("0.0") is model[0][0]
    assert model.get_submodule("") is model
    assert model.get_parameter("0.0.scale") is model[0][0].scale
    assert model.get_buffer("0.0.count") is model[0][0].count
    model.set_submodule("0.0", nn.ReLU())
    assert isinstance(model[0][0], nn.ReLU)


def test_conversion_keeps_parameter_objects_and_integers():
    module = Leaf()
    module.register_buffer("index", torch.zeros(1, dtype=torch.int64))
    module(torch.ones(2)).sum().backward()
    scale = module.scale
    assert module.double() is module
    assert module.scale is scale and scale.dtype == torch.float64
    assert scale.grad.dtype == torch.float64
    assert module.count.dtype == torch.float64 and module.index.dtype == torch.int64
    module.to(torch.float16)
    assert module.scale.dtype == torch.float16
    module.to("cpu", torch.float32).bfloat16().float()
    assert module.scale.dtype == torch.float32
    module.to(torch.zeros(1, dtype=torch.float64))
    assert module.scale.dtype == torch.float64
    assert module.to_empty(device="cpu").scale.shape == (2,)


def test_train_eval_and_requires_grad_reach_all_modules():
    model = nn.Sequential(Leaf(), nn.Sequential(nn.Dropout()))
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    assert all(module.training for module in model.train().modules())
    model.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_zero_grad_drops_or_clears():
    module = Leaf()
    module(torch.ones(2)).sum().backward()
    grad = module.scale.grad
    module.zero_grad(set_to_none=False)
    assert module.scale.grad is grad and grad.tolist() == [0, 0]
    module.zero_grad()
    assert module.scale.grad is None


def test_apply_visits_the_deepest_first():
    seen = []
    nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).apply(
        lambda module: seen.append(type(module).__name__)
    )
    assert seen == ["ReLU", "Tanh", "Sequential", "Sequential"]


def test_state_dict_shares_memory_and_load_copies():
    module, other = Leaf(), Leaf()
    state = module.state_dict()
    assert not state["scale"].requires_grad
    with torch.no_grad():
        module.scale.fill_(5)
    assert state["scale"].tolist() == [5, 5]
    result = other.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>"
    with torch.no_grad():
        module.scale.fill_(7)
    assert other.scale.tolist() == [5, 5]
    assert module.state_dict(keep_vars=True)["scale"] is module.scale
    assert list(module.state_dict(prefix="p.")) == ["p.scale", "p.count"]


def test_load_assign_keeps_the_given_tensors():
    module = Leaf()
    given = torch.full((2,), 3.0, dtype=torch.float64)
    module.load_state_dict({"scale": given, "count": torch.ones(1)}, assign=True)
    assert module.scale.dtype == torch.float64
    assert isinstance(module.scale, nn.Parameter) and module.scale.requires_grad
    given.fill_(4)
    assert module.scale.tolist() == [4, 4]


def test_load_lists_missing_and_unexpected_keys():
    result = Leaf().load_state_dict({"count": torch.zeros(1), "x.y": 3}, strict=False)
    assert result.missing_keys == ["scale"] and result.unexpected_keys == ["x.y"]
    with pytest.raises(RuntimeError) as error:
        Leaf().load_state_dict({"count": torch.zeros(1), "x.y": 3})
    assert str(error.value) == (
        "Error(s) in loading state_dict for Leaf:\n"
        '\tMissing key(s) in state_dict: "scale". \n'
        '\tUnexpected key(s) in state_dict: "x.y". '
    )


def test_extra_state_is_saved_and_loaded():
    class Extra(nn.Module):
        value = 0

        def get_extra_state(self):
            return {"value": self.value}

        def set_extra_state(self, state):
            self.value = state["value"]

    a, b = nn.Sequential(Extra()), nn.Sequential(Extra())
    a[0].value = 5
    assert a.state_dict() == {"0._extra_state": {"value": 5}}
    b.load_state_dict(a.state_dict())
    assert b[0].value == 5
    with pytest.raises(RuntimeError, match='Missing key.*"0._extra_state"'):
        b.load_state_dict({})


def test_state_dict_hooks_run():
    module = Leaf()
    log = []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("pre", prefix, keep)))
    module.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(added=1))
    module._register_state_dict_hook(lambda m, state, prefix, meta: OrderedDict(state, more=2))
    assert list(module.state_dict()) == ["scale", "count", "added", "more"]
    assert log[0] == ("pre", "", False)
    bad = nn.Module()
    bad.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="post-hook must return None"):
        bad.state_dict()


def test_load_state_dict_hooks_run():
    module = Leaf()

    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        state[prefix + "scale"] = state.pop(prefix + "old")

    module.register_load_state_dict_pre_hook(rename)
    module.register_load_state_dict_post_hook(
        lambda module, keys: keys.missing_keys.remove("count")
    )
    module.load_state_dict({"old": torch.full((2,), 9.0)})
    assert module.scale.tolist() == [9, 9]


def test_load_hook_keeps_no_module_alive():
    module = Leaf()
    module.register_load_state_dict_pre_hook(lambda *args: None)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


def test_forward_hooks_change_arguments_and_result():
    module = Leaf()
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    handle = module.register_forward_hook(lambda m, args, out: out * 10)
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"factor": 2}), with_kwargs=True
    )
    assert module(torch.zeros(2)).tolist() == [20, 20]
    handle.remove()
    handle.remove()
    assert module(torch.zeros(2)).tolist() == [2, 2]
    with module.register_forward_hook(lambda m, args, out: 0):
        assert module(torch.zeros(2)) == 0
    assert module(torch.zeros(2)).tolist() == [2, 2]


def test_pre_hook_with_kwargs_must_return_both():
    module = Leaf()
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        module(torch.zeros(2))


def test_backward_hooks_see_and_change_gradients():
    module = Leaf()
    seen = []
    module.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 3,))
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    x = torch.ones(2, requires_grad=True)
    module(x).sum().backward()
    assert seen == [[3, 3]]
    assert x.grad.tolist() == [30, 30] and module.scale.grad.tolist() == [3, 3]


def test_backward_hook_with_wrong_count_is_refused():
    module = Leaf()
    module.register_full_backward_hook(lambda m, gi, go: (None, None))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        module(torch.ones(2, requires_grad=True)).sum().backward()


def test_call_without_hooks_is_a_plain_forward():
    module = Leaf()
    module._call_with_hooks = None  # would raise if it were called
    assert module(torch.ones(2)).tolist() == [1, 1]


def test_copy_and_pickle_keep_ties_hooks_and_flags():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.extra = model[0].weight
    model[0].weight.requires_grad_(False)
    for clone in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert clone.extra is clone[0].weight and clone.extra is not model.extra
        assert not clone.extra.requires_grad and isinstance(clone.extra, nn.Parameter)
        assert clone(torch.ones(3, 2)).shape == (3, 2)
        assert clone.extra.tolist() == model.extra.tolist()


def test_parameter_repr_and_copy():
    parameter = nn.Parameter(torch.ones(2))
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    own = type("Own", (nn.Parameter,), {})(torch.ones(1))
    assert str(own) == "Parameter containing:\nParameter(Own([1.], requires_grad=True))"
    clone = copy.deepcopy(parameter)
    assert isinstance(clone, nn.Parameter) and clone is not parameter
    assert nn.Parameter().shape == (0,)
    assert not isinstance(torch.zeros(1), nn.Parameter)


def test_old_pickles_get_missing_registries():
    module = nn.Module()
    state = dict(module.__dict__)
    del state["_state_dict_pre_hooks"]
    fresh = nn.Module.__new__(nn.Module)
    fresh.__setstate__(state)
    assert fresh.state_dict() == {}


def test_super_init_can_pass_arguments_on():
    class Base:
        def __init__(self, value):
            self.value = value

    class Both(nn.Module, Base):
        call_super_init = True

    assert Both(3).value == 3
