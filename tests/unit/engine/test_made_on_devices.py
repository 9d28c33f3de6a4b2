"""What makes tensors makes them on the device that is asked for, or that is the current one."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.compiler.target import Missing
from rushlight.quasirandom import SobolEngine

HERE = not isinstance(find_backend("opencl").find(), Missing)
pytestmark = pytest.mark.skipif(not HERE, reason="no OpenCL device here")
OPENCL = torch.device("opencl")

windows = torch.signal.windows
FACTORIES = {
    "zeros": lambda **at: torch.zeros(2, **at), "full": lambda **at: torch.full((2,), 1.0, **at),
    "empty_strided": lambda **at: torch.empty_strided((2, 2), (1, 2), **at),
    "arange": lambda **at: torch.arange(3, **at), "eye": lambda **at: torch.eye(3, **at),
    "linspace": lambda **at: torch.linspace(0, 1, 3, **at),
    "rand": lambda **at: torch.rand(3, **at), "randint": lambda **at: torch.randint(3, (2,), **at),
    "randperm": lambda **at: torch.randperm(3, **at), "normal": lambda **at: torch.normal(
        0.0, 1.0, (2,), **at),
    "tensor": lambda **at: torch.tensor([1.0], **at),
    "asarray": lambda **at: torch.asarray([1.0], **at),
    "ones_like": lambda **at: torch.ones_like(torch.ones(2), **at),
    "new_full": lambda **at: torch.ones(2).new_full((2,), 1, **at),
    "tril_indices": lambda **at: torch.tril_indices(3, 3, **at),
    "triu_indices": lambda **at: torch.triu_indices(3, 3, **at),
    "fftfreq": lambda **at: torch.fft.fftfreq(3, **at),
    **{name: lambda name=name, **at: getattr(torch, f"{name}_window")(4, **at)
       for name in ("hann", "hamming", "kaiser", "blackman", "bartlett")},
    **{f"windows.{name}": lambda name=name, **at: getattr(windows, name)(4, **at)
       for name in ("gaussian", "cosine", "nuttall", "exponential", "kaiser", "bartlett", "hann")},
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_a_function_that_makes_a_tensor_makes_it_there(name: str) -> None:
    make = FACTORIES[name]
    named = make(device="opencl")
    with OPENCL:
        current, on_cpu = make(), make(device="cpu")
    for found, place in ((named, "opencl"), (current, "opencl"), (on_cpu, "cpu")):
        found.tolist()
        assert found.device.type == place
    if name not in ("rand", "randint", "randperm", "normal"):
        assert named.tolist() == current.tolist() == on_cpu.tolist()


def test_a_copy_of_a_tensor_is_where_it_is_and_leaves_it_there() -> None:
    x = torch.arange(3.0, device="opencl") * 2
    x.tolist()
    copied = torch.tensor(x)
    there = torch.as_tensor(x, device="cpu")
    assert copied.device == x.device == OPENCL and there.device.type == "cpu"
    assert copied.tolist() == x.tolist() == there.tolist() == [0, 2, 4]
    assert torch.asarray(x, copy=True).device == OPENCL
    w = torch.ones(2, requires_grad=True)
    (torch.as_tensor(w, device="opencl") * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]


def test_numbers_of_sobol_are_of_the_cpu() -> None:
    expected = SobolEngine(2, scramble=True, seed=1).draw(3).tolist()
    with OPENCL:
        assert SobolEngine(2, scramble=True, seed=1).draw(3).tolist() == expected


def test_vmap_goes_with_other_tensors_of_the_device() -> None:
    w, x = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(4, 3)
    expected = [(w @ row).tolist() for row in x]
    w, x = w.to("opencl"), x.to("opencl")
    found = torch.func.vmap(lambda row: w @ row)(x)
    assert found.device == OPENCL and found.tolist() == expected
    slope = torch.func.vmap(torch.func.grad(lambda w, x: (w @ x).sum()), (None, 0))(w, x)
    assert slope.device == OPENCL and slope[1].tolist() == [[3, 4, 5], [3, 4, 5]]


def test_composed_functions_do_not_cross_devices() -> None:
    a, b = torch.ones(3, device="opencl"), torch.tensor([1.0, 2.0, 3.0])
    a.tolist(), b.tolist()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.linalg.cross(a, b)


D = torch.distributions
DISTRIBUTIONS = {
    "Normal": lambda t: D.Normal(t, 2.0), "Bernoulli": lambda t: D.Bernoulli(t / 2),
    "Categorical": lambda t: D.Categorical(logits=t), "Gamma": lambda t: D.Gamma(t, 0.5),
    "Beta": lambda t: D.Beta(t, 1.5), "Dirichlet": D.Dirichlet, "Poisson": D.Poisson,
    "Laplace": lambda t: D.Laplace(0.0, t), "Cauchy": lambda t: D.Cauchy(t, 1.0),
    "StudentT": D.StudentT, "Chi2": D.Chi2, "HalfCauchy": D.HalfCauchy,
    "Uniform": lambda t: D.Uniform(0.0, t), "Geometric": lambda t: D.Geometric(t / 2),
    "VonMises": lambda t: D.VonMises(t, 1.0), "Multinomial": lambda t: D.Multinomial(3, t),
    "OneHotCategorical": lambda t: D.OneHotCategorical(logits=t),
    "Binomial": lambda t: D.Binomial(3, t / 2), "Pareto": lambda t: D.Pareto(t, 3.0),
    "MultivariateNormal": lambda t: D.MultivariateNormal(t, torch.eye(2, device=t.device)),
    "RelaxedBernoulli": lambda t: D.RelaxedBernoulli(t.new_tensor(0.5), t / 2),
    "LKJCholesky": lambda t: D.LKJCholesky(3, t),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_what_a_distribution_gives_is_where_its_numbers_are(name: str, unchecked) -> None:
    """Nothing is computed: where a value will be is known before."""
    made = DISTRIBUTIONS[name](torch.tensor([0.5, 1.5], device="opencl"))
    drawn = made.sample()
    given = {"sample": drawn, "log_prob": made.log_prob(drawn)}
    for part in ("mean", "variance", "entropy"):
        try:
            found = getattr(made, part)
            given[part] = found() if callable(found) else found
        except NotImplementedError:
            pass
    if made.has_enumerate_support and name != "Binomial":  # which looks at its counts
        given["support"] = made.enumerate_support()
    assert {part: str(value.device) for part, value in given.items()} == dict.fromkeys(
        given, "opencl"
    )


@pytest.fixture
def unchecked():
    """Distributions that do not look at the numbers they are given."""
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(False)
    yield
    D.Distribution.set_default_validate_args(before)
