"""torchdiffeq: solvers of differential equations, and gradients through them."""

import torch
from harness import fill, numbers
from torchdiffeq import odeint, odeint_adjoint, odeint_event

METHODS = ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun", "euler", "midpoint", "rk4",
           "heun3", "explicit_adams", "implicit_adams")  # fmt: skip


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
        )
        fill(self)

    def forward(self, t, y):
        return self.net(y**3) - 0.1 * y + 0.05 * torch.sin(t)


def case_methods(record):
    field, y0, t = Field().double(), numbers(3, 2).double(), torch.linspace(0.0, 1.0, 6).double()
    for method in METHODS:
        with torch.no_grad():
            record.put(method, odeint(field, y0, t, method=method))


def case_gradients(record):
    for name, solve in (("direct", odeint), ("adjoint", odeint_adjoint)):
        field = Field()
        y0 = numbers(3, 2).requires_grad_()
        t = torch.linspace(0.0, 1.0, 5)
        out = solve(field, y0, t, method="dopri5", rtol=1e-6, atol=1e-7)
        out[-1].square().sum().backward()
        record.put(f"{name} y0", y0.grad)
        record.put(f"{name} weight", field.net[0].weight.grad)


def case_event(record):
    """A ball that falls until it meets the ground."""

    def fall(t, state):
        height, speed = state
        return speed, torch.full_like(speed, -9.8)

    state = (torch.tensor([10.0]), torch.tensor([0.0]))
    time, solution = odeint_event(
        fall, state, torch.tensor(0.0), event_fn=lambda t, s: s[0], odeint_interface=odeint,
        method="dopri5",
    )  # fmt: skip
    record.put("time", time)
    record.put("height", solution[0])
