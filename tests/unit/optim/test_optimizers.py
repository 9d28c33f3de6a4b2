"""Optimizers: values by hand, saving and loading, hooks, groups, recorded operations."""

import copy
import pickle

import pytest

import rushlight as torch

ALL = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam", "RAdam", "Adadelta", "Adamax"]
ALL += ["ASGD", "Rprop", "Adafactor"]
FULL = {"SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "RMSprop": {"momentum": 0.9}}


def make(name, count=2, **kwargs):
    params = [torch.nn.Parameter(torch.full((2,), float(i + 1))) for i in range(count)]
    return params, getattr(torch.optim, name)(params, **{"lr": 0.1, **kwargs})


def run(params, optimizer, steps=1):
    for _ in range(steps):
        for param in params:
            param.grad = param.detach() * 0.5
        optimizer.step()


def values(params):
    return [param.tolist() for param in params]


def test_sgd_with_momentum_by_hand():
    params, optimizer = make("SGD", 1, momentum=0.5, nesterov=True, weight_decay=0.1)
    expected, buffer = 1.0, None
    for _ in range(3):
        grad = 0.5 * expected + 0.1 * expected
        buffer = grad if buffer is None else 0.5 * buffer + grad
        expected -= 0.1 * (grad + 0.5 * buffer)
        run(params, optimizer)
    assert abs(params[0][0].item() - expected) < 1e-6


def test_adam_by_hand():
    params, optimizer = make("Adam", 1, betas=(0.8, 0.9), eps=0.01)
    value, mean, square = 1.0, 0.0, 0.0
    for step in range(1, 4):
        grad = 0.5 * value
        mean = 0.8 * mean + 0.2 * grad
        square = 0.9 * square + 0.1 * grad * grad
        root = (square / (1 - 0.9**step)) ** 0.5
        value -= 0.1 * mean / (1 - 0.8**step) / (root + 0.01)
        run(params, optimizer)
    assert abs(params[0][0].item() - value) < 1e-6
    assert optimizer.state[params[0]]["step"].item() == 3


def test_first_adam_step_is_exact():
    """The bias corrections lose no digits: the first step is lr, whatever the gradient."""
    params, optimizer = make("Adam", 1, eps=0.0)
    run(params, optimizer)
    assert abs(params[0][0].item() - 0.9) < 1e-7


@pytest.mark.parametrize("name", ALL)
def test_parameters_without_gradient_stay(name):
    params, optimizer = make(name)
    params[0].grad = torch.ones(2)
    optimizer.step()
    assert params[1].tolist() == [2, 2] and params[0].tolist() != [1, 1]


@pytest.mark.parametrize("name", ALL)
def test_step_counters_are_shared_and_read_nowhere(name, monkeypatch):
    params, optimizer = make(name, 3, **FULL.get(name, {}))
    run(params, optimizer)

    def refuse(self, *args):
        raise AssertionError("a tensor value was read")

    for method in ("item", "__bool__", "__float__", "__int__", "tolist", "__index__"):
        monkeypatch.setattr(torch.Tensor, method, refuse, raising=False)
    run(params, optimizer, 2)
    monkeypatch.undo()
    states = [optimizer.state[param] for param in params]
    if "step" in states[0]:
        assert all(state["step"] is states[0]["step"] for state in states)
        assert states[0]["step"].item() == 3 and states[0]["step"].dtype == torch.float32


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adagrad", "RMSprop"])
def test_counter_splits_when_a_parameter_sits_out(name):
    params, optimizer = make(name)
    run(params, optimizer)
    params[0].grad, params[1].grad = torch.ones(2), None
    optimizer.step()
    assert [optimizer.state[param]["step"].item() for param in params] == [2, 1]
    run(params, optimizer)
    assert [optimizer.state[param]["step"].item() for param in params] == [3, 2]


@pytest.mark.parametrize("name", ALL)
def test_loaded_state_continues_equally_and_shares_nothing(name):
    params, optimizer = make(name, **FULL.get(name, {}))
    run(params, optimizer, 3)
    saved = optimizer.state_dict()
    others, other = make(name, **FULL.get(name, {}))
    for param, source in zip(others, params, strict=True):
        param.data = source.detach().clone()
    other.load_state_dict(saved)
    before = copy.deepcopy(saved)
    run(others, other, 2)
    for number, state in before["state"].items():
        for key, value in state.items():
            assert saved["state"][number][key].tolist() == value.tolist(), key
    run(params, optimizer, 2)
    assert values(others) == values(params)
    for param, source in zip(others, params, strict=True):
        for key, value in other.state[param].items():
            assert value is not optimizer.state[source][key]


def test_load_casts_to_the_parameter_and_keeps_the_step_exact():
    params, optimizer = make("Adam", 1)
    run(params, optimizer)
    saved = optimizer.state_dict()
    half = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    other = torch.optim.Adam([half])
    other.load_state_dict(saved)
    state = other.state[half]
    assert state["exp_avg"].dtype == torch.bfloat16 and state["step"].dtype == torch.float32
    saved["state"][0]["step"] = 7  # as old checkpoints have it
    other.load_state_dict(saved)
    assert other.state[half]["step"].item() == 7


@pytest.mark.parametrize("name", ALL)
def test_optimizer_survives_copy_and_pickle(name):
    params, optimizer = make(name, 1)
    run(params, optimizer)
    clone = copy.deepcopy(optimizer)
    run(clone.param_groups[0]["params"], clone)
    again = pickle.loads(pickle.dumps(optimizer))
    run(again.param_groups[0]["params"], again)
    run(params, optimizer)
    assert values(params) == values(clone.param_groups[0]["params"])
    assert values(params) == values(again.param_groups[0]["params"])


def test_groups_and_names():
    a, b = (torch.nn.Parameter(torch.ones(1)) for _ in "ab")
    optimizer = torch.optim.SGD([{"params": a, "lr": 1.0}, {"params": [b]}], lr=0.1)
    a.grad, b.grad = torch.ones(1), torch.ones(1)
    optimizer.step()
    assert a.item() == 0 and abs(b.item() - 0.9) < 1e-6
    assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [[0], [1]]
    named = torch.optim.SGD(torch.nn.Linear(1, 1).named_parameters())
    assert named.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_zero_grad():
    params, optimizer = make("SGD")
    run(params, optimizer)
    grad = params[0].grad
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad is grad and grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert all(param.grad is None for param in params)


def test_closure_runs_with_gradients():
    params, optimizer = make("Adam", 1)

    def closure():
        optimizer.zero_grad()
        loss = (params[0] ** 2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert params[0][0].item() < 1


def test_step_hooks_run_once_and_can_replace_arguments():
    log = []

    class Child(torch.optim.SGD):
        def step(self, closure=None):
            log.append(("step", closure))
            return super().step(closure)

    optimizer = Child([torch.nn.Parameter(torch.ones(1))])
    handle = optimizer.register_step_pre_hook(
        lambda opt, args, kwargs: ((opt, lambda: 5), {}) if log.append("pre") is None else None
    )
    optimizer.register_step_post_hook(lambda opt, args, kwargs: log.append("post"))
    assert optimizer.step() == 5
    assert [entry if isinstance(entry, str) else entry[0] for entry in log] == [
        "pre",
        "step",
        "post",
    ]
    handle.remove()
    assert optimizer.step() is None


def test_hooks_of_all_optimizers_run_around_the_own_ones():
    log = []
    handles = [
        torch.optim.optimizer.register_optimizer_step_pre_hook(lambda *args: log.append("all pre")),
        torch.optim.optimizer.register_optimizer_step_post_hook(
            lambda *args: log.append("all post")
        ),
    ]
    params, optimizer = make("SGD", 1)
    optimizer.register_step_pre_hook(lambda *args: log.append("pre"))
    optimizer.register_step_post_hook(lambda *args: log.append("post"))
    run(params, optimizer)
    for handle in handles:
        handle.remove()
    run(params, optimizer)
    assert log == ["all pre", "pre", "post", "all post", "pre", "post"]


def test_swapped_state_goes_back_after_an_error():
    params, optimizer = make("Adam")
    run(params, optimizer)
    others = [torch.nn.Parameter(torch.zeros(2)) for _ in params]
    before, state = values(params), copy.deepcopy(optimizer.state_dict())
    for param in others:
        param.grad = torch.ones(2)
    swap = torch.optim.swap_in_optimizer_params_and_state
    with pytest.raises(KeyError), swap(optimizer, dict(zip("ab", others, strict=True)), state):
        optimizer.step()
        raise KeyError
    assert values(params) == before and values(others) != [[0, 0], [0, 0]]
    assert optimizer.state_dict()["state"][0]["step"].item() == 1
    assert state["state"][0]["step"].item() == 2


def test_lbfgs_finds_the_bottom_of_a_curved_valley():
    x = torch.nn.Parameter(torch.tensor([-1.0, 1.5]))
    optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert (x - 1).abs().max().item() < 1e-2
    with pytest.raises(ValueError, match="per-parameter options"):
        torch.optim.LBFGS([{"params": [x]}, {"params": [torch.nn.Parameter(torch.ones(1))]}])


def test_muon_steps_are_orthogonal():
    weight = torch.nn.Parameter(torch.zeros(3, 5))
    weight.grad = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    torch.optim.Muon([weight], lr=1.0, weight_decay=0.0).step()
    sizes = torch.linalg.svdvals(weight.detach())
    assert 0.6 < sizes.min().item() and sizes.max().item() < 1.3
    with pytest.raises(ValueError, match="only supports 2D"):
        torch.optim.Muon([torch.nn.Parameter(torch.zeros(3))])


def test_sparse_adam_refuses_dense_gradients():
    params, optimizer = make("SparseAdam")
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        run(params, optimizer)


def test_state_dict_hooks_run():
    params, optimizer = make("SGD")
    log = []
    optimizer.register_state_dict_pre_hook(lambda opt: log.append("pre"))
    optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "more": 1})
    state = optimizer.state_dict()
    assert log == ["pre"] and state["more"] == 1
    optimizer.register_load_state_dict_pre_hook(lambda opt, state: log.append(state["more"]))
    optimizer.register_load_state_dict_post_hook(lambda opt: log.append("loaded"))
    optimizer.load_state_dict(state)
    assert log == ["pre", 1, "loaded"]


def test_step_ends_with_a_flush(monkeypatch):
    log = []
    monkeypatch.setattr(torch, "flush", lambda: log.append("flush"), raising=False)
    params, optimizer = make("SGD")
    optimizer.register_step_post_hook(lambda *args: log.append("post"))
    run(params, optimizer)
    assert log == ["post", "flush"]


def test_user_optimizer_with_required_option():
    from rushlight.optim.optimizer import Optimizer, required

    class Mine(Optimizer):
        def step(self, closure=None):
            for group in self.param_groups:
                for param in group["params"]:
                    param.data.add_(param.grad, alpha=-group["lr"])

    param = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Mine([param], {"lr": required})
    optimizer = Mine([{"params": [param], "lr": 0.5}], {"lr": required})
    param.grad = torch.ones(1)
    optimizer.step()
    assert param.item() == 0.5


def test_zero_learning_rate_changes_nothing():
    for name in ALL:
        more = {} if name == "Rprop" else {"weight_decay": 0.0}
        params, optimizer = make(name, lr=0.0, **more)
        for param in params:
            param.grad = torch.zeros(2)
        optimizer.step()
        assert values(params) == [[1, 1], [2, 2]]


def test_adam_finds_the_minimum():
    target = torch.tensor([1.0, -2.0, 3.0])
    x = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.Adam([x], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        ((x - target) ** 2).sum().backward()
        optimizer.step()
    assert (x - target).abs().max().item() < 1e-2


def test_what_keeps_no_state_has_none():
    """Steps that are repeated do not make entries by looking for them."""
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([param], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (param * param).sum().backward()
        optimizer.step()
    assert optimizer.state_dict()["state"] == {}
