"""Optimizers and schedules against PyTorch: equal starts, equal gradients, equal steps."""

import copy
import inspect
import warnings

import numpy as np
import pytest

real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402
from tests.parity.common import assert_same_error, random_array, to_ours, to_real  # noqa: E402

SHAPES = [(3, 4), (5,), ()]
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.0, 0.0)}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.6)}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adam", {"lr": 0.0}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.3, "eps": 1e-3}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "maximize": True, "alpha": 0.8}),
    ("NAdam", {"lr": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "momentum_decay": 6e-3}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.95, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "eps": 1e-3}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 5, "lambd": 1e-2, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {"lr": 0.1}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "d": 1.5}),
    ("Adafactor", {"eps": (1e-6, 1e-2), "beta2_decay": -0.3}),
]
# Every optimizer of CASES with a step counter, one by one, and SGD.
NAMES = [*dict.fromkeys(name for name, _ in CASES)]
COUNTING = [name for name in NAMES if name != "SGD"]


def make_params(t, make, dtype="float32"):
    arrays = [random_array(shape, seed).astype(dtype) for seed, shape in enumerate(SHAPES)]
    return [t.nn.Parameter(make(array)) for array in arrays]


def set_grads(params, make, step, dtype="float32", skip=None):
    for place, param in enumerate(params):
        gradient = random_array(tuple(param.shape), 100 * step + place).astype(dtype)
        param.grad = None if skip is not None and skip(step, place) else make(gradient)


def assert_params_equal(ours, theirs, tolerance=2e-6):
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            own.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance
        )


def assert_states_equal(ours, theirs, tolerance=2e-6):
    own, other = ours.state_dict(), theirs.state_dict()
    assert own["param_groups"] == other["param_groups"]
    assert list(own["state"]) == list(other["state"])
    for number, state in other["state"].items():
        assert set(own["state"][number]) == set(state)
        for key, value in state.items():
            got = own["state"][number][key]
            np.testing.assert_allclose(got.numpy(), value.numpy(), rtol=tolerance, atol=tolerance)
            assert str(got.dtype) == str(value.dtype)


def take_steps(name, own_kwargs, real_kwargs, count, tolerance=1e-5, dtype="float32", skip=None):
    """Both optimizers, after `count` steps with the same gradients; the parameters are equal."""
    ours, theirs = make_params(torch, to_ours, dtype), make_params(real, to_real, dtype)
    own_opt = getattr(torch.optim, name)(ours, **own_kwargs)
    real_opt = getattr(real.optim, name)(theirs, **real_kwargs)
    assert repr(own_opt) == repr(real_opt)
    for step in range(count):
        set_grads(ours, to_ours, step, dtype, skip)
        set_grads(theirs, to_real, step, dtype, skip)
        own_opt.step()
        real_opt.step()
        assert_params_equal(ours, theirs, tolerance)
    return own_opt, real_opt


@pytest.mark.parametrize("name,kwargs", CASES, ids=lambda value: str(value))
def test_twenty_steps_equal_pytorch(name, kwargs):
    assert_states_equal(*take_steps(name, kwargs, kwargs, 20), 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_double_parameters_equal_pytorch(name):
    take_steps(name, {"lr": 0.1}, {"lr": 0.1}, 5, 1e-12, "float64")


@pytest.mark.parametrize("name", COUNTING)
def test_parameters_that_sit_out_keep_their_own_step(name):
    def skip(step, place):
        return (place == 1 and step % 3 != 0) or (place == 2 and step < 4)

    assert_states_equal(*take_steps(name, {"lr": 0.1}, {"lr": 0.1}, 10, skip=skip), 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_tensor_lr_equals_pytorch(name):
    take_steps(name, {"lr": torch.tensor(0.1)}, {"lr": real.tensor(0.1)}, 5)


@pytest.mark.parametrize("name", [*NAMES, "Muon", "LBFGS", "SparseAdam"])
def test_signatures_equal_pytorch(name):
    def described(cls):
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert described(getattr(torch.optim, name)) == described(getattr(real.optim, name))


def test_scheduler_signatures_equal_pytorch():
    for name in torch.optim.lr_scheduler.__all__:
        own = inspect.signature(getattr(torch.optim.lr_scheduler, name).__init__).parameters
        other = inspect.signature(getattr(real.optim.lr_scheduler, name).__init__).parameters
        assert [(p.name, p.default) for p in own.values()] == [
            (p.name, p.default) for p in other.values()
        ], name


BAD = [
    lambda t, p: t.optim.SGD([]),
    lambda t, p: t.optim.SGD(p[0]),
    lambda t, p: t.optim.SGD([3]),
    lambda t, p: t.optim.SGD([p[0] * 2]),
    lambda t, p: t.optim.SGD({p[0]}).add_param_group({"params": {p[1]}}),
    lambda t, p: t.optim.SGD(p).add_param_group({"params": p[:1]}),
    lambda t, p: t.optim.SGD(p).add_param_group([1]),
    lambda t, p: t.optim.SGD([("a", p[0]), p[1]]),
    lambda t, p: t.optim.SGD([("a", p[0])]).add_param_group({"params": p[1:]}),
    lambda t, p: t.optim.SGD(p, lr=-1.0),
    lambda t, p: t.optim.SGD(p, momentum=-1.0),
    lambda t, p: t.optim.SGD(p, weight_decay=-1.0),
    lambda t, p: t.optim.SGD(p, nesterov=True),
    lambda t, p: t.optim.SGD(p, lr=t.zeros(2)),
    lambda t, p: t.optim.Adam(p, lr=-1.0),
    lambda t, p: t.optim.Adam(p, eps=-1.0),
    lambda t, p: t.optim.Adam(p, betas=(1.0, 0.9)),
    lambda t, p: t.optim.Adam(p, betas=(0.9, -0.1)),
    lambda t, p: t.optim.Adam(p, betas=(0.9, t.tensor(0.1))),
    lambda t, p: t.optim.Adam(p, weight_decay=-1),
    lambda t, p: t.optim.Adam(p, lr=t.tensor(0.1), foreach=True),
    lambda t, p: t.optim.Adam(p, fused=True, differentiable=True),
    lambda t, p: t.optim.Adagrad(p, lr_decay=-1),
    lambda t, p: t.optim.Adagrad(p, initial_accumulator_value=-1),
    lambda t, p: t.optim.RMSprop(p, alpha=-1),
    lambda t, p: t.optim.RMSprop(p, momentum=-1),
    lambda t, p: t.optim.SGD(p).load_state_dict({"state": {}, "param_groups": []}),
    lambda t, p: t.optim.SGD(p).load_state_dict({"state": {}, "param_groups": [{"params": [0]}]}),
    lambda t, p: t.optim.lr_scheduler.StepLR(3, 1),
    lambda t, p: t.optim.lr_scheduler.LambdaLR(t.optim.SGD(p), [1, 2]),
    lambda t, p: t.optim.lr_scheduler.MultiplicativeLR(t.optim.SGD(p), 3),
    lambda t, p: t.optim.lr_scheduler.ConstantLR(t.optim.SGD(p), 2.0),
    lambda t, p: t.optim.lr_scheduler.LinearLR(t.optim.SGD(p), 0.0),
    lambda t, p: t.optim.lr_scheduler.LinearLR(t.optim.SGD(p), 1.0, 2.0),
    lambda t, p: t.optim.lr_scheduler.OneCycleLR(t.optim.SGD(p), 1.0),
    lambda t, p: t.optim.lr_scheduler.OneCycleLR(t.optim.SGD(p), 1.0, 0),
    lambda t, p: t.optim.lr_scheduler.OneCycleLR(t.optim.SGD(p), 1.0, 5, pct_start=2.0),
    lambda t, p: t.optim.lr_scheduler.OneCycleLR(t.optim.SGD(p), 1.0, 5, anneal_strategy="x"),
    lambda t, p: t.optim.lr_scheduler.OneCycleLR(t.optim.Adagrad(p), 1.0, 5),
    lambda t, p: t.optim.lr_scheduler.CyclicLR(t.optim.Adagrad(p), 1.0, 5),
    lambda t, p: t.optim.lr_scheduler.CyclicLR(t.optim.SGD(p), [1.0, 2.0], 5),
    lambda t, p: t.optim.lr_scheduler.CyclicLR(t.optim.SGD(p), 1.0, 5, mode="x"),
    lambda t, p: t.optim.lr_scheduler.CosineAnnealingWarmRestarts(t.optim.SGD(p), 0),
    lambda t, p: t.optim.lr_scheduler.CosineAnnealingWarmRestarts(t.optim.SGD(p), 1, 0),
    lambda t, p: t.optim.lr_scheduler.ReduceLROnPlateau(t.optim.SGD(p), factor=1.0),
    lambda t, p: t.optim.lr_scheduler.ReduceLROnPlateau(t.optim.SGD(p), mode="x"),
    lambda t, p: t.optim.lr_scheduler.ReduceLROnPlateau(t.optim.SGD(p), threshold_mode="x"),
    lambda t, p: t.optim.lr_scheduler.ReduceLROnPlateau(t.optim.SGD(p), min_lr=[1, 2]),
    lambda t, p: t.optim.lr_scheduler.SequentialLR(t.optim.SGD(p), [], []),
    lambda t, p: t.optim.lr_scheduler.SequentialLR(t.optim.SGD(p), [3], []),
    lambda t, p: t.optim.lr_scheduler.ChainedScheduler([]),
    lambda t, p: t.optim.lr_scheduler.StepLR(t.optim.SGD(p), 1, last_epoch=3),
]


@pytest.mark.parametrize("use", BAD)
def test_errors_equal_pytorch(use):
    assert_same_error(
        lambda: use(torch, make_params(torch, to_ours)),
        lambda: use(real, make_params(real, to_real)),
    )


def sequential(s, optimizer):
    parts = [s.ConstantLR(optimizer, 0.1, 3), s.ExponentialLR(optimizer, 0.9)]
    return s.SequentialLR(optimizer, parts, [4])


def chained(s, optimizer):
    return s.ChainedScheduler([s.ConstantLR(optimizer, 0.1, 3), s.ExponentialLR(optimizer, 0.9)])


SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * epoch),
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.3, 4),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.9, 6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.8),
    "polynomial": lambda s, o: s.PolynomialLR(o, 7, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "restarts1": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "onecycle": lambda s, o: s.OneCycleLR(o, [0.5, 1.0], 25),
    "onecycle3": lambda s, o: s.OneCycleLR(
        o, 0.5, epochs=5, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"
    ),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 3),
    "cyclic2": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, mode="triangular2"),
    "cyclic_exp": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, mode="exp_range", gamma=0.9),
    "cyclic_fn": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, scale_fn=lambda x: 1 / x),
    "sequential": sequential,
    "chained": chained,
}


def trajectory(t, make, build, optimizer_name, resume_at=None):
    def start():
        params = make_params(t, make)
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.2}]
        kwargs = {"momentum": 0.9} if optimizer_name == "SGD" else {}
        optimizer = getattr(t.optim, optimizer_name)(groups, lr=0.1, **kwargs)
        return optimizer, build(t.optim.lr_scheduler, optimizer)

    optimizer, schedule = start()
    log = [schedule.get_last_lr()]
    for step in range(20):
        optimizer.step()
        schedule.step()
        log.append(schedule.get_last_lr())
        log.append([g.get("momentum", g.get("betas", [0])) for g in optimizer.param_groups])
        if step == resume_at:
            saved = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
            optimizer, schedule = start()
            optimizer.load_state_dict(saved[0])
            schedule.load_state_dict(saved[1])
    return [np.ravel(entry).tolist() for entry in log]


@pytest.mark.parametrize("optimizer_name", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_equals_pytorch(name, optimizer_name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = trajectory(torch, to_ours, SCHEDULES[name], optimizer_name)
        other = trajectory(real, to_real, SCHEDULES[name], optimizer_name)
    np.testing.assert_allclose(np.concatenate(own), np.concatenate(other), rtol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_resumed_schedule_equals_unbroken_one(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = trajectory(torch, to_ours, SCHEDULES[name], "SGD")
        resumed = trajectory(torch, to_ours, SCHEDULES[name], "SGD", resume_at=6)
    np.testing.assert_allclose(np.concatenate(whole), np.concatenate(resumed), rtol=1e-12)


@pytest.mark.parametrize("kwargs", [{}, {"mode": "max", "threshold_mode": "abs", "cooldown": 1}])
def test_plateau_equals_pytorch(kwargs):
    def run(t, make):
        optimizer = t.optim.SGD(make_params(t, make), lr=1.0)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, **kwargs)
        out = []
        for value in [1.0, 0.9, 0.95, 0.96, 0.97, 0.98, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9]:
            schedule.step(value)
            out.append(schedule.get_last_lr()[0])
        return out

    assert run(torch, to_ours) == run(real, to_real)


@pytest.mark.parametrize(
    "name", ["exponential", "cosine", "onecycle", "cyclic", "linear", "lambda"]
)
def test_schedule_with_tensor_lr_keeps_the_tensor(name):
    def run(t, make):
        lr = t.tensor(0.1)
        optimizer = t.optim.Adam([{"params": p} for p in make_params(t, make)[:2]], lr=lr)
        for group in optimizer.param_groups:
            group["lr"] = t.tensor(0.1)
        kept = optimizer.param_groups[0]["lr"]
        schedule = SCHEDULES[name](t.optim.lr_scheduler, optimizer)
        out = []
        for _ in range(6):
            optimizer.step()
            schedule.step()
            out.append([float(lr) for lr in schedule.get_last_lr()])
        assert optimizer.param_groups[0]["lr"] is kept
        return out

    np.testing.assert_allclose(run(torch, to_ours), run(real, to_real), rtol=1e-6)


def test_state_dicts_move_between_both():
    """A state dict of PyTorch continues here with the same numbers."""
    ours, theirs = make_params(torch, to_ours), make_params(real, to_real)
    own_opt = torch.optim.AdamW(ours, lr=0.1)
    real_opt = real.optim.AdamW(theirs, lr=0.1)
    for step in range(3):
        set_grads(theirs, to_real, step)
        real_opt.step()
    saved = real_opt.state_dict()
    saved["state"] = {
        number: {key: to_ours(value.numpy()) for key, value in state.items()}
        for number, state in saved["state"].items()
    }
    own_opt.load_state_dict(saved)
    for own, other in zip(ours, theirs, strict=True):
        own.data = to_ours(other.detach().numpy())
    for step in range(3, 6):
        set_grads(ours, to_ours, step)
        set_grads(theirs, to_real, step)
        own_opt.step()
        real_opt.step()
    assert_params_equal(ours, theirs, 1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Adafactor"])
def test_gradient_of_two_differentiable_steps_equals_pytorch(name):
    def run(t, make):
        start = make(random_array((3,))).requires_grad_()
        slope = make(random_array((3,), 1)).requires_grad_()
        param = start.clone()
        optimizer = getattr(t.optim, name)([param], lr=0.1, differentiable=True)
        # PyTorch itself changes in place what backward needs after one step of these.
        for step in range(1 if name in ("RMSprop", "Rprop", "Adamax") else 2):
            param.grad = slope * (step + 1)
            optimizer.step()
        param.sum().backward()
        return start.grad, slope.grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for own, other in zip(run(torch, to_ours), run(real, to_real), strict=True):
            np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_tensor_betas_equal_pytorch(name):
    ours, theirs = make_params(torch, to_ours), make_params(real, to_real)
    own_opt = getattr(torch.optim, name)(ours, betas=(torch.tensor(0.8), torch.tensor(0.9)))
    real_opt = getattr(real.optim, name)(theirs, betas=(0.8, 0.9))
    for step in range(5):
        set_grads(ours, to_ours, step)
        set_grads(theirs, to_real, step)
        own_opt.step()
        real_opt.step()
    assert_params_equal(ours, theirs, 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_parameters_stay_close_to_pytorch(name):
    ours, theirs = make_params(torch, to_ours), make_params(real, to_real)
    for t, params in ((torch, ours), (real, theirs)):
        for param in params:
            param.data = param.data.to(t.bfloat16)
    own_opt = getattr(torch.optim, name)(ours, lr=0.1)
    real_opt = getattr(real.optim, name)(theirs, lr=0.1)
    for step in range(5):
        for t, make, params in ((torch, to_ours, ours), (real, to_real, theirs)):
            for place, param in enumerate(params):
                gradient = make(random_array(tuple(param.shape), 100 * step + place))
                param.grad = gradient.to(t.bfloat16)
        own_opt.step()
        real_opt.step()
    assert_params_equal([p.float() for p in ours], [p.float() for p in theirs], 0.03)
    assert all(param.dtype == torch.bfloat16 for param in ours)


def lbfgs_run(t, make, **options):
    """The path of a least squares problem that is a little curved."""
    matrix, target = make(random_array((12, 5), 1)), make(random_array((12,), 2))
    x = t.nn.Parameter(make(random_array((5,), 3)))
    optimizer = t.optim.LBFGS([x], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = ((matrix @ x).tanh() - target).pow(2).sum() + 0.1 * x.pow(4).sum()
        loss.backward()
        return loss

    for _ in range(3):  # a fourth one would decide by the last bits of the loss
        losses.append(optimizer.step(closure).item())
    state = optimizer.state_dict()["state"][0]
    return losses, x.detach().numpy(), {key: state[key] for key in ("func_evals", "n_iter")}


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1, "max_iter": 3},
        {"line_search_fn": "strong_wolfe", "max_iter": 4},
        {"line_search_fn": "strong_wolfe", "max_iter": 6, "history_size": 2, "max_eval": 7},
        {"lr": 0.5, "max_iter": 5, "history_size": 3, "tolerance_change": 1e-3},
    ],
    ids=str,
)
def test_lbfgs_takes_the_path_of_pytorch(options):
    own, other = lbfgs_run(torch, to_ours, **options), lbfgs_run(real, to_real, **options)
    np.testing.assert_allclose(own[0], other[0], rtol=1e-3)
    np.testing.assert_allclose(own[1], other[1], rtol=2e-2, atol=1e-3)
    assert own[2] == other[2]


@pytest.mark.parametrize("options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}])
def test_muon_equals_pytorch(options):
    arrays = [random_array((6, 4), 1), random_array((3, 8), 2)]
    ours, theirs = ([t.nn.Parameter(make(a)) for a in arrays] for t, make in
                    ((torch, to_ours), (real, to_real)))  # fmt: skip
    own, other = (
        torch.optim.Muon(ours, lr=0.1, **options),
        real.optim.Muon(theirs, lr=0.1, **options),
    )
    for step in range(4):
        set_grads(ours, to_ours, step)
        set_grads(theirs, to_real, step)
        own.step()
        other.step()
    assert_params_equal(ours, theirs, 1e-3)
    assert_states_equal(own, other, 1e-5)


@pytest.mark.parametrize("kind", ["mean", "ema", "fn", "buffers"])
def test_averaged_model_equals_pytorch(kind):
    def run(t, make):
        swa = t.optim.swa_utils
        options = {
            "mean": {},
            "ema": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7)},
            "fn": {"avg_fn": swa.get_ema_avg_fn(0.6)},
            "buffers": {"use_buffers": True},
        }[kind]
        model = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.BatchNorm1d(2))
        averaged = swa.AveragedModel(model, **options)
        for step in range(3):
            with t.no_grad():
                for place, weight in enumerate(model.parameters()):
                    weight.copy_(make(random_array(tuple(weight.shape), 10 * step + place)))
            model(make(random_array((4, 3), step)))
            averaged.update_parameters(model)
        state = {key: value.numpy() for key, value in averaged.state_dict().items()}
        swa.update_bn([make(random_array((4, 3), 7)), [make(random_array((5, 3), 8))]], averaged)
        return state, {key: value.numpy() for key, value in averaged.state_dict().items()}

    for own, other in zip(run(torch, to_ours), run(real, to_real), strict=True):
        assert list(own) == list(other)
        for key, value in own.items():
            np.testing.assert_allclose(value, other[key], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_swa_schedule_equals_pytorch(strategy, epochs):
    def run(t):
        optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=1.0)
        scheduler = t.optim.swa_utils.SWALR(optimizer, 0.1, epochs, strategy)
        rates = []
        for _ in range(6):
            optimizer.step()
            scheduler.step()
            rates += scheduler.get_last_lr()
        return rates

    np.testing.assert_allclose(run(torch), run(real), rtol=1e-12)
