"""KL divergences between distributions of different kinds.

Most are: minus the entropy of p, minus the mean under p of q's log density. They are infinite where
p can give what q cannot.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions.continuous import Gumbel, Laplace, Uniform
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.counts import Bernoulli, Binomial, Poisson
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.kl import register_kl
from rushlight.distributions.normal import Normal
from rushlight.distributions.positive import Beta, Exponential, Gamma
from rushlight.distributions.powers import Pareto
from rushlight.distributions.utils import LOG_2PI, euler_constant


def _infinite(p: Any, q: Any) -> Any:
    """p reaches where q has no density."""
    shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    value = next(v for v in vars(p).values() if isinstance(v, torch.Tensor | Distribution))
    like = value if isinstance(value, torch.Tensor) else p.mean
    return like.new_full(shape, math.inf)


_NEVER_INSIDE = (
    (Beta, Pareto), (ContinuousBernoulli, Pareto), (Exponential, Beta),
    (Exponential, ContinuousBernoulli), (Exponential, Pareto), (Exponential, Uniform),
    (Gamma, Beta), (Gamma, ContinuousBernoulli), (Gamma, Pareto), (Gamma, Uniform),
    (Gumbel, Beta), (Gumbel, ContinuousBernoulli), (Gumbel, Exponential), (Gumbel, Gamma),
    (Gumbel, Pareto), (Gumbel, Uniform), (Laplace, Beta), (Laplace, ContinuousBernoulli),
    (Laplace, Exponential), (Laplace, Gamma), (Laplace, Pareto), (Laplace, Uniform),
    (Normal, Beta), (Normal, ContinuousBernoulli), (Normal, Exponential), (Normal, Gamma),
    (Normal, Pareto), (Normal, Uniform), (Pareto, Beta), (Pareto, ContinuousBernoulli),
    (Pareto, Uniform), (Poisson, Bernoulli), (Poisson, Binomial),
)  # fmt: skip
for _pair in _NEVER_INSIDE:
    register_kl(*_pair)(_infinite)


def _normal_cross(p: Any, q: Any, mean: Any, variance: Any) -> Any:
    """Minus the mean of the log density of the normal q."""
    off = variance + (mean - q.loc).pow(2)
    return 0.5 * LOG_2PI + q.scale.log() + 0.5 * off / q.scale.pow(2)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
def _exponential_cross(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    log_mean = p.concentration1.digamma() - total.digamma()
    density = (
        q.concentration * q.rate.log() - q.concentration.lgamma()
        + (q.concentration - 1) * log_mean - q.rate * p.mean
    )  # fmt: skip
    return -p.entropy() - density


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Any) -> Any:
    return -p.entropy() + _normal_cross(p, q, p.mean, p.variance)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    kl = -p.entropy() + _normal_cross(p, q, p.mean, p.variance)
    return torch.where(p.alpha <= 2, math.inf, kl)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_uniform(p: Any, q: Any) -> Any:
    kl = -p.entropy() + (q.high - q.low).log()
    return torch.where((q.high < 1) | (q.low > 0), math.inf, kl)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return (
        -q.concentration * ratio.log() + ratio + q.concentration.lgamma()
        + q.concentration * euler_constant - (1 + euler_constant)
    )  # fmt: skip


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


def _gumbel_cross(q: Any, mean: Any, exponential_mean: Any) -> Any:
    """Minus the mean of the log density of the Gumbel q; the mean of exp(-x / scale) is given."""
    return q.scale.log() + (mean - q.loc) / q.scale + (q.loc / q.scale).exp() * exponential_mean


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product = p.rate * q.scale
    return -p.entropy() + _gumbel_cross(q, p.mean, product / (product + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    moment = (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return -p.entropy() + _gumbel_cross(q, p.mean, moment)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    moment = torch.exp(-p.loc / q.scale + 0.5 * (p.scale / q.scale).pow(2))
    return -p.entropy() + _gumbel_cross(q, p.mean, moment)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    span = p.high - p.low
    moment = q.scale * ((-p.low / q.scale).exp() - (-p.high / q.scale).exp()) / span
    return -p.entropy() + _gumbel_cross(q, p.mean, moment)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    off = p.loc - q.loc
    z = off / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * z.pow(2))
    spread = spread + off * torch.erf(z / math.sqrt(2))
    return -p.entropy() + torch.log(2 * q.scale) + spread / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    kl = -p.entropy() - q.rate.log() + q.rate * p.mean
    return torch.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    log_mean = p.scale.log() + p.alpha.reciprocal()
    density = (
        q.concentration * q.rate.log() - q.concentration.lgamma()
        + (q.concentration - 1) * log_mean - q.rate * p.mean
    )  # fmt: skip
    return torch.where(p.alpha <= 1, math.inf, -p.entropy() - density)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    span = p.high - p.low

    def log_mean(low: Any, high: Any) -> Any:
        """The mean of log x between low and high."""
        return (torch.xlogy(high, high) - torch.xlogy(low, low) - span) / span

    normal = q.concentration1.lgamma() + q.concentration0.lgamma()
    normal = normal - (q.concentration1 + q.concentration0).lgamma()
    kl = (
        -p.entropy()
        - (q.concentration1 - 1) * log_mean(p.low, p.high)
        - (q.concentration0 - 1) * log_mean(1 - p.high, 1 - p.low)
        + normal
    )
    return torch.where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    kl = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    return torch.where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    kl = -p.entropy() - q.rate.log() + q.rate * p.mean
    return torch.where(p.low < 0, math.inf, kl)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    span = p.high - p.low
    log_mean = (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low) - span) / span
    density = (
        q.concentration * q.rate.log() - q.concentration.lgamma()
        + (q.concentration - 1) * log_mean - q.rate * p.mean
    )  # fmt: skip
    return torch.where(p.low < 0, math.inf, -p.entropy() - density)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    span = p.high - p.low
    log_mean = (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low) - span) / span
    density = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * log_mean
    return torch.where(p.low < q.scale, math.inf, -p.entropy() - density)
