"""A complex parameter is updated as its real and imaginary parts would be."""

import pytest

import rushlight as torch
from rushlight import optim

MAKERS = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 0.1, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, 0.1),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, initial_accumulator_value=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "adamax": lambda p: optim.Adamax(p, 0.1),
    "nadam": lambda p: optim.NAdam(p, 0.1),
    "radam": lambda p: optim.RAdam(p, 0.1),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p, 0.1),
    "asgd": lambda p: optim.ASGD(p, 0.1),
    "lbfgs": lambda p: optim.LBFGS(p, 0.1, max_iter=3),
}


@pytest.mark.parametrize("name", MAKERS)
def test_as_two_real_numbers(name):
    torch.manual_seed(0)
    start, goal = torch.randn(2, 3, 2), torch.randn(2, 3, 2)
    whole = torch.nn.Parameter(torch.view_as_complex(start.clone()))
    parts, beside = torch.nn.Parameter(start.clone()), torch.nn.Parameter(torch.ones(2))
    other = torch.nn.Parameter(torch.ones(2))
    for param, more in ((whole, beside), (parts, other)):
        optimizer = MAKERS[name]([param, more])

        def closure(param=param, more=more, optimizer=optimizer):
            optimizer.zero_grad()
            real = torch.view_as_real(param) if param.is_complex() else param
            loss = ((real - goal) ** 2 * real.detach().abs()).sum() + (more**2).sum()
            loss.backward()
            return loss

        for _ in range(4):
            optimizer.step(closure)
    torch.testing.assert_close(torch.view_as_real(whole.detach()), parts.detach())
    torch.testing.assert_close(beside.detach(), other.detach())


def test_the_state_is_complex_and_loads():
    param = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    optimizer = optim.Adam([param])
    param.grad = torch.ones_like(param)
    optimizer.step()
    state = optimizer.state[param]
    assert state["exp_avg"].dtype is torch.complex64 and state["step"] == 1
    assert set(optimizer.state) == {param}
    again = optim.Adam([param])
    again.load_state_dict(optimizer.state_dict())
    again.step()
    assert again.state[param]["step"] == 2


def test_a_wrapper_made_without_the_constructor_steps():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            self.inner.step(closure)

    param = torch.nn.Parameter(torch.ones(1))
    param.grad = torch.ones(1)
    wrapper = Wrapper(optim.SGD([param], 0.5))
    wrapper.step()
    assert param.item() == 0.5
    wrapper._patch_step_function()
    wrapper.step()
    assert param.item() == 0.0
