"""`torch.distributions`: probability distributions, transforms, KL divergences."""

from rushlight import names as _names
from rushlight.distributions import constraints, kl, kl_pairs, kl_same, transforms, utils
from rushlight.distributions.categories import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
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
    Laplace,
    Uniform,
)
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.counts import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from rushlight.distributions.covariances import LKJCholesky, Wishart
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.matrices import (
    LowRankMultivariateNormal,
    MultivariateNormal,
)
from rushlight.distributions.normal import HalfNormal, LogisticNormal, LogNormal, Normal
from rushlight.distributions.positive import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    Gamma,
    InverseGamma,
)
from rushlight.distributions.powers import GeneralizedPareto, Kumaraswamy, Pareto, Weibull
from rushlight.distributions.ratios import FisherSnedecor, StudentT
from rushlight.distributions.relaxed import (
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
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
_names.lend(__name__, "rushlight.distributions", "rushlight.distributions.utils", "rushlight")
