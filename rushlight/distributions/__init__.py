"""`torch.distributions`: probability distributions, transforms, KL divergences."""

from rushlight import names as _names
from rushlight.distributions import constraints, kl, kl_pairs, kl_same, transforms, utils
from rushlight.distributions.categories import (
    Categorical,
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from rushlight.distributions.composed import (
    Independent,
    MixtureSameFamily,
    TransformedDistribution,
)
from rushlight.distributions.constraint_registry import (
    ConstraintRegistry,
    biject_to,
    transform_to,
)
from rushlight.distributions.continuous import (
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogisticNormal,
    LogNormal,
    Normal,
    Uniform,
)
from rushlight.distributions.counts import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.matrices import (
    LKJCholesky,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
)
from rushlight.distributions.positive import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from rushlight.distributions.powers import GeneralizedPareto, Kumaraswamy, Pareto, Weibull
from rushlight.distributions.transforms import *  # noqa: F403
from rushlight.distributions.von_mises import VonMises

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT",
    "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
    "kl_divergence", "register_kl", "transform_to", *transforms.__all__,
]  # fmt: skip
