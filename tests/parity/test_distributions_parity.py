"""torch.distributions against PyTorch: densities, moments, transforms, KL, and draws by moments."""

import math
from functools import partial

import numpy as np
import pytest
import torch as real

import rushlight as torch

RNG = np.random.default_rng(5)


def positive(*shape):
    return (RNG.random(shape) * 2 + 0.3).astype(np.float64)


def normal(*shape):
    return RNG.standard_normal(shape)


def chance(*shape):
    return RNG.random(shape) * 0.8 + 0.1


def weights(*shape):
    p = RNG.random(shape) + 0.1
    return p / p.sum(-1, keepdims=True)


def spd(n, *batch):
    a = RNG.standard_normal((*batch, n, n))
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def lower(n):
    return np.linalg.cholesky(spd(n))


# name -> arguments; arrays become float64 tensors of each side.
CASES = {
    "Bernoulli": [{"probs": chance(3)}, {"logits": normal(2, 3)}, {"probs": 0.3}],
    "Beta": [{"concentration1": positive(3), "concentration0": positive(3)}],
    "Binomial": [{"total_count": 5, "probs": chance(3)}, {"total_count": 4, "logits": normal(3)}],
    "Categorical": [{"probs": weights(4)}, {"logits": normal(2, 3)}],
    "Cauchy": [{"loc": normal(3), "scale": positive(3)}],
    "Chi2": [{"df": positive(3)}],
    "ContinuousBernoulli": [{"probs": np.array([0.1, 0.4995, 0.7])}, {"logits": normal(3)}],
    "Dirichlet": [{"concentration": positive(3)}, {"concentration": positive(2, 4)}],
    "Exponential": [{"rate": positive(3)}],
    "FisherSnedecor": [{"df1": positive(3) + 3, "df2": positive(3) + 5}],
    "Gamma": [{"concentration": positive(3), "rate": positive(3)}],
    # float32: PyTorch refuses float64 here (its isclose compares with a float32 zero)
    "GeneralizedPareto": [{"loc": normal(3).astype(np.float32),
                           "scale": positive(3).astype(np.float32),
                           "concentration": np.array([0.2, 0.0, -0.3], np.float32)}],
    "Geometric": [{"probs": chance(3)}, {"logits": normal(3)}],
    "Gumbel": [{"loc": normal(3), "scale": positive(3)}],
    "HalfCauchy": [{"scale": positive(3)}],
    "HalfNormal": [{"scale": positive(3)}],
    "InverseGamma": [{"concentration": positive(3) + 2, "rate": positive(3)}],
    "Kumaraswamy": [{"concentration1": positive(3) + 1, "concentration0": positive(3) + 1}],
    "LKJCholesky": [{"dim": 3, "concentration": positive(2)}],
    "Laplace": [{"loc": normal(3), "scale": positive(3)}],
    "LogNormal": [{"loc": normal(3), "scale": positive(3)}],
    "LogisticNormal": [{"loc": normal(3), "scale": positive(3)}],
    "LowRankMultivariateNormal": [{"loc": normal(4), "cov_factor": normal(4, 2),
                                   "cov_diag": positive(4)}],
    "Multinomial": [{"total_count": 6, "probs": weights(3)}],
    "MultivariateNormal": [{"loc": normal(3), "covariance_matrix": spd(3)},
                           {"loc": normal(2, 3), "precision_matrix": spd(3)},
                           {"loc": normal(3), "scale_tril": lower(3)}],
    "NegativeBinomial": [{"total_count": 4.0, "probs": chance(3)}],
    "Normal": [{"loc": normal(2, 3), "scale": positive(3)}, {"loc": 0.5, "scale": 2.0}],
    "OneHotCategorical": [{"probs": weights(4)}, {"logits": normal(2, 3)}],
    "OneHotCategoricalStraightThrough": [{"probs": weights(4)}],
    "Pareto": [{"scale": positive(3), "alpha": positive(3) + 2}],
    "Poisson": [{"rate": positive(3) * 3}],
    "RelaxedBernoulli": [{"temperature": np.array(0.7), "probs": chance(3)}],
    "RelaxedOneHotCategorical": [{"temperature": np.array(0.7), "probs": weights(4)}],
    "StudentT": [{"df": positive(3) + 3, "loc": normal(3), "scale": positive(3)}],
    "Uniform": [{"low": normal(3), "high": normal(3) + 5}],
    "VonMises": [{"loc": normal(3), "concentration": positive(3)}],
    "Weibull": [{"scale": positive(3), "concentration": positive(3)}],
    "Wishart": [{"df": np.array(5.0), "covariance_matrix": spd(3)}],
}  # fmt: skip
ALL = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]
PROPERTIES = ("mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "has_rsample",
              "has_enumerate_support", "entropy", "perplexity")  # fmt: skip


def build(space, name, arguments, grad=False):
    made = {}
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            value = space.from_numpy(np.array(value)).requires_grad_(grad)
        made[key] = value
    return getattr(space.distributions, name)(**made), made


def pair(name, number, grad=False):
    arguments = CASES[name][number]
    return build(torch, name, arguments, grad), build(real, name, arguments, grad)


def plain(value):
    if hasattr(value, "detach"):
        return np.asarray(value.detach().tolist())
    return value


def outcome(function):
    """The value, or the class of the error."""
    try:
        found = function()
    except (NotImplementedError, AttributeError, ValueError) as error:
        return "error", NotImplementedError if isinstance(error, AttributeError) else type(error)
    return "value", plain(found)


def same(ours, theirs, what, rtol=1e-5, atol=1e-6):
    mine, other = outcome(ours), outcome(theirs)
    if other[0] == "error":
        assert mine[0] == "error", f"{what}: PyTorch raises {other[1]}, we give {mine[1]}"
        return
    assert mine[0] == "value", f"{what}: we raise {mine[1]}"
    if isinstance(other[1], np.ndarray):
        np.testing.assert_allclose(mine[1], other[1], rtol, atol, err_msg=what)
    else:
        assert tuple(mine[1]) == tuple(other[1]) if hasattr(other[1], "__len__") else (
            mine[1] == other[1]), what  # fmt: skip


@pytest.mark.parametrize(("name", "number"), ALL)
def test_moments_and_shapes_are_those_of_pytorch(name, number):
    (ours, _), (theirs, _) = pair(name, number)
    for prop in PROPERTIES:
        if (name, prop) == ("Kumaraswamy", "mode"):
            continue  # PyTorch takes the logarithm of a negative number; see below

        def get(d, prop=prop):
            found = getattr(d, prop)
            return found() if callable(found) else found

        same(lambda: get(ours), lambda: get(theirs), f"{name}.{prop}")


def values_of(theirs):
    """Draws of PyTorch's distribution, and shapes that broadcast."""
    real.manual_seed(0)
    return theirs.sample((5,))


@pytest.mark.parametrize(("name", "number"), ALL)
def test_log_prob_cdf_and_their_gradients(name, number):
    (ours, own), (theirs, other) = pair(name, number, grad=True)
    drawn = values_of(theirs)
    x = torch.from_numpy(drawn.numpy())
    for method in ("log_prob", "cdf"):
        mine, other_one = getattr(ours, method), getattr(theirs, method)
        same(partial(mine, x), partial(other_one, drawn), f"{name}.{method}")
    if not any(hasattr(v, "grad") for v in other.values()):
        return
    theirs.log_prob(drawn).sum().backward()
    ours.log_prob(x).sum().backward()
    for key, value in other.items():
        if hasattr(value, "grad") and value.grad is not None:
            np.testing.assert_allclose(
                plain(own[key].grad), plain(value.grad), 1e-4, 1e-5, err_msg=f"{name}: {key}"
            )


@pytest.mark.parametrize(("name", "number"), ALL)
def test_icdf_support_expand_and_text(name, number):
    (ours, _), (theirs, _) = pair(name, number)
    p = RNG.random((4, *theirs.batch_shape, *theirs.event_shape)) * 0.9 + 0.05
    same(lambda: ours.icdf(torch.from_numpy(p)), lambda: theirs.icdf(real.from_numpy(p)),
         f"{name}.icdf")  # fmt: skip
    same(ours.enumerate_support, theirs.enumerate_support, f"{name}.enumerate_support")
    shape = (2, *theirs.batch_shape)
    wide, other = ours.expand(shape), theirs.expand(shape)
    assert tuple(wide.batch_shape) == tuple(other.batch_shape)
    drawn = values_of(other)
    x = torch.from_numpy(drawn.numpy())
    same(lambda: wide.log_prob(x), lambda: other.log_prob(drawn), f"{name}.expand")
    assert repr(ours.support).split("(")[0] == repr(theirs.support).split("(")[0]
    assert repr(ours).replace("\n", "") == repr(theirs).replace("\n", "")


@pytest.mark.parametrize(("name", "number"), ALL)
def test_draws_have_the_moments_and_lie_in_the_support(name, number):
    (ours, _), (theirs, _) = pair(name, number)
    torch.manual_seed(3)
    drawn = ours.sample((20000,))
    assert tuple(drawn.shape) == (20000, *theirs.batch_shape, *theirs.event_shape)
    assert bool(ours.support.check(drawn).all())
    same_support = theirs.support.check(real.from_numpy(drawn.numpy())).float().mean()
    assert same_support > 0.999, "PyTorch accepts our draws"
    real.manual_seed(0)
    wanted = theirs.sample((20000,)).double()
    # Squeezed: means and spreads of heavy tails say little.
    mine, other = np.arctan(plain(drawn.double())), np.arctan(plain(wanted))
    spread = other.std(0) + 1e-3
    off = np.abs(mine.mean(0) - other.mean(0)) / spread
    assert off.max() < 0.05, f"{name}: means differ by {off.max():.3f} standard deviations"
    ratio = (mine.std(0) + 1e-3) / spread
    assert np.abs(np.log(ratio)).max() < 0.05, f"{name}: spreads {ratio}"


@pytest.mark.parametrize(
    "name", ["Beta", "Cauchy", "Dirichlet", "Exponential", "Gamma", "Gumbel", "HalfNormal",
             "InverseGamma", "Laplace", "LogNormal", "MultivariateNormal", "Normal", "StudentT",
             "Uniform", "Weibull", "RelaxedBernoulli", "Chi2", "FisherSnedecor"],
)  # fmt: skip
def test_gradients_of_draws_have_the_mean_of_pytorch(name):
    """d E[f(x)] / d arguments, estimated by the same estimator on both sides."""
    (ours, own), (theirs, other) = pair(name, 0, grad=True)
    torch.manual_seed(1)
    real.manual_seed(1)

    def estimate(d, space, count=20000):
        space_x = d.rsample((count,))
        (space.atan(space_x).sum() / count).backward()

    estimate(ours, torch)
    estimate(theirs, real)
    for key, value in other.items():
        if hasattr(value, "grad"):
            np.testing.assert_allclose(
                plain(own[key].grad), plain(value.grad), 0.1, 0.03, err_msg=f"{name}: {key}"
            )


def kl_pairs():
    real.manual_seed(0)
    found = []
    for a in CASES:
        for b in CASES:
            p, q = build(real, a, CASES[a][0])[0], build(real, b, CASES[b][0])[0]
            try:
                real.distributions.kl_divergence(p, q)
            except (NotImplementedError, ValueError, RuntimeError, IndexError):
                continue
            found.append((a, b))
    return found


@pytest.mark.parametrize(("a", "b"), kl_pairs())
def test_kl_divergence_is_that_of_pytorch(a, b):
    (p, _), (p_real, _) = pair(a, 0)
    (q, _), (q_real, _) = pair(b, 0)
    same(lambda: torch.distributions.kl_divergence(p, q),
         lambda: real.distributions.kl_divergence(p_real, q_real), f"KL({a}, {b})")  # fmt: skip


def test_mode_of_kumaraswamy_is_where_the_density_is_highest():
    d = torch.distributions.Kumaraswamy(torch.tensor(2.0).double(), torch.tensor(3.0).double())
    x = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    highest = x[d.log_prob(x).argmax()]
    assert abs(d.mode.item() - highest.item()) < 2e-3


def test_composed_distributions():
    def mixture(space):
        t = lambda a: space.from_numpy(np.array(a))  # noqa: E731
        d = space.distributions
        RNG2 = np.random.default_rng(1)
        mix = d.Categorical(t(np.array([0.2, 0.3, 0.5])))
        return d.MixtureSameFamily(
            mix, d.Normal(t(RNG2.standard_normal((2, 3))), t(RNG2.random((2, 3)) + 0.5))
        )

    ours, theirs = mixture(torch), mixture(real)
    x = np.random.default_rng(2).standard_normal((4, 2))
    for name in ("mean", "variance"):
        same(partial(getattr, ours, name), partial(getattr, theirs, name), name)
    same(lambda: ours.log_prob(torch.from_numpy(x)), lambda: theirs.log_prob(real.from_numpy(x)),
         "log_prob")  # fmt: skip
    same(lambda: ours.cdf(torch.from_numpy(x)), lambda: theirs.cdf(real.from_numpy(x)), "cdf")
    assert tuple(ours.sample((3,)).shape) == (3, 2)


def test_independent_and_transformed():
    def make(space):
        d, t = space.distributions, lambda a: space.from_numpy(np.array(a))
        base = d.Independent(d.Normal(t(np.zeros((2, 3))), t(np.ones((2, 3)))), 1)
        parts = [d.transforms.AffineTransform(1.0, 2.0), d.transforms.SigmoidTransform()]
        return d.TransformedDistribution(base, parts)

    ours, theirs = make(torch), make(real)
    x = RNG.random((4, 2, 3))
    same(lambda: ours.log_prob(torch.from_numpy(x)), lambda: theirs.log_prob(real.from_numpy(x)),
         "log_prob")  # fmt: skip
    assert tuple(ours.batch_shape) == (2,) and tuple(ours.event_shape) == (3,)


TRANSFORMS = {
    "ExpTransform": ((), "real"), "SigmoidTransform": ((), "real"), "TanhTransform": ((), "real"),
    "SoftplusTransform": ((), "real"), "AffineTransform": ((0.5, -2.0), "real"),
    "PowerTransform": ((1.5,), "positive"), "SoftmaxTransform": ((), "vector"),
    "StickBreakingTransform": ((), "vector"), "LowerCholeskyTransform": ((), "matrix"),
    "PositiveDefiniteTransform": ((), "matrix"), "CorrCholeskyTransform": ((), "triangle"),
    "AbsTransform": ((), "real"), "ReshapeTransform": (((2, 3), (6,)), "matrix23"),
}  # fmt: skip
INPUTS = {
    "real": normal(2, 3), "positive": positive(2, 3), "vector": normal(2, 4),
    "matrix": normal(2, 3, 3), "triangle": normal(2, 6), "matrix23": normal(4, 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_those_of_pytorch(name):
    arguments, kind = TRANSFORMS[name]
    ours = getattr(torch.distributions.transforms, name)(*arguments)
    theirs = getattr(real.distributions.transforms, name)(*arguments)
    a, b = torch.from_numpy(INPUTS[kind].copy()), real.from_numpy(INPUTS[kind].copy())
    y, z = ours(a), theirs(b)
    np.testing.assert_allclose(plain(y), plain(z), 1e-6, 1e-9)
    same(lambda: ours.inv(y), lambda: theirs.inv(z), "inverse")
    same(lambda: ours.log_abs_det_jacobian(a, y), lambda: theirs.log_abs_det_jacobian(b, z),
         "log_abs_det_jacobian")  # fmt: skip
    assert tuple(ours.forward_shape(a.shape)) == tuple(theirs.forward_shape(b.shape))
    assert ours.bijective == theirs.bijective and repr(ours) == repr(theirs)
    assert repr(ours.domain) == repr(theirs.domain)
    assert repr(ours.codomain) == repr(theirs.codomain)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "name", ["real", "positive", "unit_interval", "simplex", "real_vector", "corr_cholesky",
             "nonnegative", "lower_cholesky", "positive_definite"],
)  # fmt: skip
def test_transform_into_a_region(registry, name):
    make, other = (getattr(s.distributions, registry) for s in (torch, real))
    region, theirs = (getattr(s.distributions.constraints, name) for s in (torch, real))
    kinds = {"simplex": "vector", "corr_cholesky": "triangle", "lower_cholesky": "matrix",
             "positive_definite": "matrix"}  # fmt: skip
    x = INPUTS[kinds.get(name, "real")]
    same(lambda: make(region)(torch.from_numpy(x)), lambda: other(theirs)(real.from_numpy(x)), name)


CONSTRAINTS = {
    "boolean": [0.0, 1.0, 0.5], "positive": [-1.0, 0.0, 1.0], "nonnegative": [-1.0, 0.0, 1.0],
    "unit_interval": [-0.1, 0.0, 1.0], "nonnegative_integer": [-1.0, 0.0, 1.5],
    "positive_integer": [0.0, 1.0, 1.5], "real": [1.0, math.nan, math.inf],
    "simplex": [[0.2, 0.8], [0.3, 0.8], [-0.2, 1.2]], "one_hot": [[0.0, 1.0], [1.0, 1.0]],
    "lower_triangular": [[[1.0, 0.0], [2.0, 3.0]], [[1.0, 1.0], [0.0, 1.0]]],
    "lower_cholesky": [[[1.0, 0.0], [2.0, 3.0]], [[-1.0, 0.0], [0.0, 1.0]]],
    "positive_definite": [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]],
    "positive_semidefinite": [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
    "symmetric": [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, 1.0]]],
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_regions_accept_what_pytorch_accepts(name):
    ours, theirs = (getattr(s.distributions.constraints, name) for s in (torch, real))
    x = np.array(CONSTRAINTS[name])
    assert ours.check(torch.from_numpy(x)).tolist() == theirs.check(real.from_numpy(x)).tolist()
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Normal", {"loc": 0.0, "scale": -1.0}), ("Bernoulli", {"probs": 1.5}),
     ("Categorical", {}), ("Uniform", {"low": 1.0, "high": 0.0}), ("Gamma", {
         "concentration": -1.0, "rate": 1.0})],
)  # fmt: skip
def test_wrong_arguments_are_refused(name, arguments):
    for space in (real, torch):
        with pytest.raises(ValueError):
            getattr(space.distributions, name)(**arguments)


def test_wrong_values_are_refused():
    d = torch.distributions.Exponential(1.0)
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(torch.tensor(-1.0))
    with pytest.raises(ValueError, match="must be a Tensor"):
        torch.distributions.Normal(0.0, 1.0).log_prob(0.5)
