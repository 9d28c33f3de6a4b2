"""What `compile` gives for a module: PyTorch's OptimizedModule."""

import copy
import io
import pickle

import pytest

import rushlight as torch
from rushlight._dynamo import OptimizedModule


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 3)
        self.k = 4

    def forward(self, x):
        return self.fc(x) * self.k


X = torch.ones(1, 2)


@pytest.fixture
def pair():
    model = Net()
    return model, torch.compile(model)


def test_names_and_kinds(pair):
    model, fast = pair
    assert isinstance(fast, OptimizedModule) and not isinstance(fast, Net)
    assert fast._orig_mod is model and getattr(model, "_orig_mod", model) is model
    assert list(fast.state_dict()) == ["_orig_mod.fc.weight", "_orig_mod.fc.bias"]
    assert [name for name, _ in fast.named_modules()] == ["", "_orig_mod", "_orig_mod.fc"]
    assert list(fast.parameters())[0] is model.fc.weight
    assert repr(fast).startswith("OptimizedModule(\n  (_orig_mod): Net(")
    fast.load_state_dict(fast.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        fast.load_state_dict(model.state_dict())
    outer = torch.nn.Sequential(fast)
    assert list(outer.state_dict())[0] == "0._orig_mod.fc.weight"


def test_attributes_are_the_inner_modules(pair):
    model, fast = pair
    fast.k, fast.new = 7, 3
    assert (model.k, model.new, fast.fc) == (7, 3, model.fc)
    fast.fc = torch.nn.Linear(2, 1)
    assert fast(X).shape == (1, 1) and model.fc.out_features == 1
    fast.extra = torch.nn.Parameter(torch.ones(1))
    assert "extra" in dict(model.named_parameters())
    del fast.extra
    assert not hasattr(model, "extra") and not hasattr(fast, "extra")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nope'"):
        _ = fast.nope
    assert {"fc", "_orig_mod"} <= set(dir(fast))


def test_training_flag(pair):
    model, fast = pair
    assert fast.eval() is fast and not model.training and not model.fc.training
    model.train()
    assert fast.training
    fast.training = False
    assert not model.training and model.fc.training


def test_hooks_of_both(pair):
    model, fast = pair
    seen = []
    fast.register_forward_pre_hook(lambda m, a: seen.append(("pre", type(m).__name__)))
    outer = fast.register_forward_hook(lambda m, a, y: y * 0)
    model.register_forward_hook(lambda m, a, y: seen.append(("inner", type(m).__name__)))
    assert not fast(X).any()
    assert seen == [("pre", "OptimizedModule"), ("inner", "Net")]
    outer.remove()
    assert torch.equal(fast(X), model(X))


@pytest.mark.parametrize("how", ["copy", "pickle", "save"])
def test_copies_and_files(pair, how):
    model, fast = pair
    if how == "copy":
        other = copy.deepcopy(fast)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(fast))
    else:
        file = io.BytesIO()
        torch.save(fast, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    assert type(other) is OptimizedModule and other._orig_mod is not model
    assert torch.equal(other(X), fast(X))


def test_it_replays_and_sees_changes(pair):
    model, fast = pair
    with torch.no_grad():
        for _ in range(5):
            assert torch.equal(fast(X), model(X))
        assert fast._compiled.replays >= 1
        model.k = 9
        assert torch.equal(fast(X), model(X))
        model.fc = torch.nn.Linear(2, 5)
        assert fast(X).shape == (1, 5)


def test_a_compiled_step_around_it_sees_changes(pair):
    model, fast = pair

    @torch.compile
    def step(x):
        return fast(x).sum() + fast.fc.weight.sum()

    with torch.no_grad():
        for k in (4, 4, 4, 4, 6, 6):
            fast.k = k
            want = model(X).sum() + model.fc.weight.sum()
            torch.testing.assert_close(step(X), want)
        assert step.replays >= 1
        model.fc.weight = torch.nn.Parameter(torch.zeros(3, 2))
        torch.testing.assert_close(step(X), model(X).sum())
        fast.register_forward_hook(lambda m, a, y: y * 0)
        torch.testing.assert_close(step(X), torch.tensor(0.0))


def test_gradients_and_conversion(pair):
    model, fast = pair
    fast(X).sum().backward()
    assert model.fc.weight.grad.tolist() == [[4, 4]] * 3
    assert fast.to(torch.float64) is fast and fast(X.double()).dtype == torch.float64
