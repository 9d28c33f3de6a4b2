"""Schedules against their closed formulas."""

import math
import warnings

import pytest

import rushlight as torch

schedules = torch.optim.lr_scheduler


def optimizer(lr=1.0, **kwargs):
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr, **kwargs)


def rates(build, steps, **kwargs):
    opt = optimizer(**kwargs)
    schedule = build(opt)
    out = [opt.param_groups[0]["lr"]]
    for _ in range(steps):
        opt.step()
        schedule.step()
        out.append(opt.param_groups[0]["lr"])
    return out


CASES = {
    "step": (lambda o: schedules.StepLR(o, 3, 0.1), lambda e: 0.1 ** (e // 3)),
    "multistep": (
        lambda o: schedules.MultiStepLR(o, [2, 5], 0.5),
        lambda e: 0.5 ** ((e >= 2) + (e >= 5)),
    ),
    "constant": (lambda o: schedules.ConstantLR(o, 0.5, 4), lambda e: 0.5 if e < 4 else 1.0),
    "linear": (
        lambda o: schedules.LinearLR(o, 0.2, 1.0, 4),
        lambda e: 0.2 + 0.8 * min(e, 4) / 4,
    ),
    "exponential": (lambda o: schedules.ExponentialLR(o, 0.9), lambda e: 0.9**e),
    "polynomial": (
        lambda o: schedules.PolynomialLR(o, 8, 2.0),
        lambda e: (1 - min(e, 8) / 8) ** 2,
    ),
    "lambda": (lambda o: schedules.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    "multiplicative": (lambda o: schedules.MultiplicativeLR(o, lambda e: 0.9), lambda e: 0.9**e),
    "cosine": (
        lambda o: schedules.CosineAnnealingLR(o, 5, 0.1),
        lambda e: 0.1 + 0.9 * (1 + math.cos(math.pi * e / 5)) / 2,
    ),
    "restarts": (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 4),
        lambda e: (1 + math.cos(math.pi * (e % 4) / 4)) / 2,
    ),
    "cyclic": (
        lambda o: schedules.CyclicLR(o, 0.0, 1.0, 4, cycle_momentum=False),
        lambda e: 1 - abs(e % 8 - 4) / 4,
    ),
    "onecycle": (
        lambda o: schedules.OneCycleLR(
            o,
            1.0,
            11,
            pct_start=0.5,
            anneal_strategy="linear",
            cycle_momentum=False,
            final_div_factor=1e30,
        ),
        lambda e: 0.04 + 0.96 * e / 4.5 if e <= 4.5 else 1 - (e - 4.5) / 5.5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_schedule_follows_its_formula(name):
    build, formula = CASES[name]
    got = rates(build, 10)
    assert got == pytest.approx([formula(epoch) for epoch in range(11)], abs=1e-9)


def test_one_cycle_refuses_more_steps():
    with pytest.raises(ValueError, match="Tried to step 6 times"):
        rates(lambda o: schedules.OneCycleLR(o, 1.0, 5, cycle_momentum=False), 6)


def test_sequential_and_chained():
    def sequential(opt):
        parts = [schedules.ConstantLR(opt, 0.1, 9), schedules.ExponentialLR(opt, 0.5)]
        return schedules.SequentialLR(opt, parts, [3])

    assert rates(sequential, 5) == pytest.approx([0.1, 0.1, 0.1, 1.0, 0.5, 0.25])

    def chained(opt):
        parts = [schedules.ConstantLR(opt, 0.5, 2), schedules.ExponentialLR(opt, 0.5)]
        return schedules.ChainedScheduler(parts)

    assert rates(chained, 3) == pytest.approx([0.5, 0.25, 0.25, 0.125])


def test_plateau_waits_then_reduces():
    opt = optimizer()
    schedule = schedules.ReduceLROnPlateau(opt, patience=1, factor=0.5, min_lr=0.3)
    out = []
    for loss in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        schedule.step(torch.tensor(loss))
        out.append(opt.param_groups[0]["lr"])
    assert out == [1.0, 1.0, 0.5, 0.5, 0.3, 0.3, 0.3]


def test_cyclic_moves_the_momentum():
    opt = optimizer(momentum=0.5)
    schedule = schedules.CyclicLR(opt, 0.1, 1.0, 2, base_momentum=0.8, max_momentum=0.9)
    seen = [opt.param_groups[0]["momentum"]]
    for _ in range(3):
        opt.step()
        schedule.step()
        seen.append(opt.param_groups[0]["momentum"])
    assert seen == pytest.approx([0.9, 0.85, 0.8, 0.85])


def test_wrong_order_of_calls_warns_once_it_is_seen():
    opt = optimizer()
    schedule = schedules.ExponentialLR(opt, 0.9)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step"):
        schedule.step()
    opt = optimizer()
    schedule = schedules.ExponentialLR(opt, 0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.step()
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_epoch_argument_jumps_with_a_warning():
    opt = optimizer()
    schedule = schedules.ExponentialLR(opt, 0.5)
    opt.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        schedule.step(3)
    assert schedule.get_last_lr() == [0.125]


def test_tensor_lr_stays_the_same_tensor():
    opt = optimizer(lr=torch.tensor(1.0))
    lr = opt.param_groups[0]["lr"]
    schedule = schedules.ExponentialLR(opt, 0.5)
    opt.step()
    schedule.step()
    assert opt.param_groups[0]["lr"] is lr and lr.item() == 0.5
    assert schedule.get_last_lr()[0] is not lr


def test_state_holds_callable_objects_but_no_functions():
    class Factor:
        def __init__(self, base):
            self.base = base

        def __call__(self, epoch):
            return self.base**epoch

    schedule = schedules.LambdaLR(optimizer(), [Factor(0.5)])
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"base": 0.5}] and "optimizer" not in state
    other = schedules.LambdaLR(optimizer(), [Factor(0.9)])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].base == 0.5
    assert schedules.LambdaLR(optimizer(), lambda e: 1.0).state_dict()["lr_lambdas"] == [None]
