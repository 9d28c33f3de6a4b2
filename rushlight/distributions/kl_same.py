"""KL divergences between two distributions of one kind."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions.categories import Categorical, OneHotCategorical
from rushlight.distributions.composed import Independent, TransformedDistribution
from rushlight.distributions.continuous import (
    Cauchy,
    Gumbel,
    Laplace,
    Uniform,
)
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.counts import (
    Bernoulli,
    Binomial,
    Geometric,
    Poisson,
)
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.matrices import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    batch_mahalanobis,
    log_diagonal,
)
from rushlight.distributions.normal import HalfNormal, Normal
from rushlight.distributions.positive import Beta, Dirichlet, Exponential, Gamma
from rushlight.distributions.powers import Pareto
from rushlight.distributions.utils import euler_constant, sum_rightmost

F = torch.nn.functional


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    one = torch.where(q.probs == 0, math.inf, one)
    one = torch.where(p.probs == 0, 0.0, one)
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zero = torch.where(q.probs == 1, math.inf, zero)
    return one + torch.where(p.probs == 1, 0.0, zero)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    p_sum, q_sum = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    normal = (
        q.concentration1.lgamma() + q.concentration0.lgamma() + p_sum.lgamma()
        - p.concentration1.lgamma() - p.concentration0.lgamma() - q_sum.lgamma()
    )  # fmt: skip
    return (
        normal
        + (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
        + (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
        + (q_sum - p_sum) * torch.digamma(p_sum)
    )


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t = torch.where((q.probs == 0).expand_as(t), math.inf, t)
    return torch.where((p.probs == 0).expand_as(t), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    own = p._cont_bern_log_norm() + torch.log1p(-p.probs)
    other = q._cont_bern_log_norm() + torch.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + own - other


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normal = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normal + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )  # fmt: skip


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, place, other = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    first = -ratio.log() - place + other
    second = ratio * euler_constant
    third = torch.exp(place + (1 + ratio).lgamma() - other)
    return first + second + third - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * torch.exp(-off / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    off = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + off - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    kl = q.alpha * ratio.log() + (p.alpha / q.alpha).log() + q.alpha / p.alpha - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, math.inf, kl)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    width = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return width - (4 * p.scale * q.scale).log()


def _check_events(p: Any, q: Any, name: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {name} with different event shapes cannot be computed"
        )


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    _check_events(p, q, "Multivariate Normals")
    lower_p, lower_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    n = p.event_shape[0]
    shape = (*torch.broadcast_shapes(lower_q.shape[:-2], lower_p.shape[:-2]), n, n)
    solved = torch.linalg.solve_triangular(
        lower_q.expand(shape), lower_p.expand(shape), upper=False
    )
    trace = solved.pow(2).sum((-2, -1))
    distance = batch_mahalanobis(lower_q, q.loc - p.loc)
    return log_diagonal(lower_q) - log_diagonal(lower_p) + 0.5 * (trace + distance - n)


def _as_full(p: Any) -> Any:
    return MultivariateNormal(p.loc, scale_tril=p.scale_tril, validate_args=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Any:
    return _multivariate_normal(_as_full(p), _as_full(q))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_low_rank(p: Any, q: Any) -> Any:
    return _multivariate_normal(p, _as_full(q))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_full(p: Any, q: Any) -> Any:
    return _multivariate_normal(_as_full(p), q)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of distributions with different transforms is not known")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of different reinterpreted_batch_ndims is not known")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
