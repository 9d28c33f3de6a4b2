"""Draws from distributions that need rejection or sums: gamma, Dirichlet, Poisson, binomial.

A graph has no loop that ends when a draw is accepted, so each draw makes a fixed number of tries,
all of them wherever it is drawn, and takes the first that is accepted. ATTEMPTS is such that none
is accepted with a chance below 1e-11; then the last try stands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.autograd.function import Function
from rushlight.autograd.mode import no_grad
from rushlight.base.dtypes import float32, float64
from rushlight.tensors.creation import arange, full_like
from rushlight.tensors.forms import linked
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_math import where
from rushlight.tensors.random import rand, randn
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

ATTEMPTS = 12
SMALL_RATE = 10.0  # below it a Poisson or binomial count is found by adding up probabilities
TERMS = 48  # more than this has a chance below 1e-14 at SMALL_RATE
NODES = 64


def _need_float(name: str, value: Tensor) -> None:
    if value._dtype.kind != "float":
        raise NotImplementedError(f"\"{name}\" not implemented for '{value._dtype.name}'")


def _first(accepted: Tensor, value: Tensor) -> Tensor:
    """Along dimension 0: the value of the first accepted try, or of the last one."""
    chosen = value[-1]
    for i in reversed(range(value._shape[0] - 1)):
        chosen = where(accepted[i], value[i], chosen)
    return chosen


def _gamma_draw(alpha: Tensor, generator: Any) -> Tensor:
    """Marsaglia and Tsang (2000): a cube of a normal number; below 1, of alpha + 1 and a power."""
    raised = where(alpha < 1, alpha + 1, alpha)
    d = raised - 1.0 / 3.0
    c = 1.0 / (9.0 * d).sqrt()
    tries = (ATTEMPTS, *alpha._shape)
    x = randn(tries, dtype=alpha._dtype, generator=generator)
    u = 1 - rand(tries, dtype=alpha._dtype, generator=generator)
    v = (1 + c * x) ** 3
    positive = v > 0
    log_v = where(positive, v, full_like(v, 1.0)).log()
    accepted = positive & (u.log() < 0.5 * x * x + d - d * v + d * log_v)
    drawn = d * _first(accepted, v)
    power = (1 - rand(alpha._shape, dtype=alpha._dtype, generator=generator)) ** (1 / alpha)
    return where(alpha < 1, drawn * power, drawn)


class _StandardGamma(Function):
    """A draw whose gradient is that of the inverse cdf at a fixed probability."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, generator: Any) -> Tensor:
        wide = float64 if alpha._dtype is float64 else float32
        drawn = _gamma_draw(alpha.to(wide), generator).to(alpha._dtype)
        smallest = float(np.finfo(np.float64 if wide is float64 else np.float32).tiny)
        drawn = drawn.clamp(min=smallest)
        ctx.save_for_backward(alpha, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple:
        alpha, drawn = ctx.saved_tensors
        return grad * _standard_gamma_grad(alpha, drawn), None


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Draws from the gamma distributions with these shape parameters and rate 1."""
    _need_float("gamma", self)
    return _StandardGamma.apply(self, generator)


def _quadrature(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights on [0, 1]: Gauss and Legendre's for s**3, so dense near 0."""
    places, weights = np.polynomial.legendre.leggauss(points)
    even = (places + 1) / 2
    return even**3, 1.5 * weights * even**2


def _standard_gamma_grad(self: Tensor, output: Tensor) -> Tensor:
    """d output / d self, where output is a draw: minus dF/dalpha over the density.

    With digamma = psi, that is x times an integral of (ln(t) - psi(alpha)) t^(alpha-1) e^-t over
    the part of the axis below x, or (with the other sign) above it: the two are equal, since the
    whole integral is 0. The part with the smaller integrand is taken, by a Gauss rule in float64.
    """
    alpha, x = self.detach().to(float64), output.detach().to(float64)
    psi = alpha.digamma()
    places, weights = _quadrature(NODES)
    shape = (NODES, *(1,) * alpha.dim())
    s = tensor_of(places.reshape(shape))
    w = tensor_of(weights.reshape(shape))
    length = 36.0 + 9.0 * alpha.sqrt()
    q = s * length
    # Below x: t = x exp(-q / alpha), q from 0 on.
    low = (-q + x * (1 - (-q / alpha).exp())).exp() * (x.log() - q / alpha - psi)
    low = -(x / alpha) * (w * low).sum(0) * length
    # Above x: t = x + q.
    high = ((alpha - 1) * (q / x).log1p() - q).exp() * ((x + q).log() - psi)
    high = (w * high).sum(0) * length
    return where(x < alpha + 3, low, high).to(self._dtype)


def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """Draws from the Dirichlet distributions with these concentrations (the last dimension)."""
    _need_float("dirichlet", self)
    drawn = _standard_gamma(self, generator)
    total = drawn / drawn.sum(-1, keepdim=True)
    return total.clamp(min=float(np.finfo(np.float32).tiny))


def _count_below(u: Tensor, log_chance: Tensor) -> Tensor:
    """How many of the sums of chances (dimension 0) lie below u: the inverse of the cdf."""
    return (log_chance.exp().cumsum(0) < u).sum(0).to(u._dtype)


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Whole numbers (in the dtype of `input`) from the Poisson distributions with these rates."""
    _need_float("poisson", input)
    with no_grad():
        rate = input.detach().to(float64 if input._dtype is float64 else float32)
        small = _small_poisson(rate.clamp(max=SMALL_RATE), generator)
        large = _large_poisson(rate.clamp(min=SMALL_RATE), generator)
        drawn = where(rate < SMALL_RATE, small, large).to(input._dtype)
    return linked(drawn, input)


def _small_poisson(rate: Tensor, generator: Any) -> Tensor:
    k = arange(TERMS, dtype=rate._dtype).reshape(TERMS, *(1,) * rate.dim())
    u = rand(rate._shape, dtype=rate._dtype, generator=generator)
    # A rate of 0 gives only zeros: its logarithm must not meet k = 0.
    log_rate = rate.clamp(min=1e-30).log()
    return _count_below(u, k * log_rate - rate - (k + 1).lgamma())


def _large_poisson(rate: Tensor, generator: Any) -> Tensor:
    """Hoermann's transformed rejection (PTRS, 1993)."""
    b = 0.931 + 2.53 * rate.sqrt()
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    tries = (ATTEMPTS, *rate._shape)
    u = rand(tries, dtype=rate._dtype, generator=generator) - 0.5
    v = 1 - rand(tries, dtype=rate._dtype, generator=generator)
    us = 0.5 - u.abs()
    k = ((2 * a / us + b) * u + rate + 0.43).floor()
    at_once = (us >= 0.07) & (v <= quick)
    never = (k < 0) | ((us < 0.013) & (v > us))
    chance = k * rate.log() - rate - (k.clamp(min=0) + 1).lgamma()
    weighed = v.log() + inverse_alpha.log() - (a / (us * us) + b).log() <= chance
    return _first(at_once | (weighed & ~never), k).clamp(min=0)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of `count` trials succeed, each with chance `prob`; the dtype is that of `count`."""
    _need_float("binomial", count)
    with no_grad():
        wide = float64 if count._dtype is float64 else float32
        n, p = count.detach().to(wide), prob.detach().to(wide)
        n, p = n + p * 0, p + n * 0  # one shape
        flipped = p > 0.5
        q = where(flipped, 1 - p, p)
        is_small = n * q < SMALL_RATE
        small = _small_binomial(n, where(is_small, q, SMALL_RATE / n.clamp(min=1) / 2), generator)
        big_n = where(is_small, full_like(n, 40.0), n)
        large = _large_binomial(big_n, where(is_small, full_like(q, 0.4), q), generator)
        drawn = where(is_small, small, large)
        result = where(flipped, n - drawn, drawn).to(count._dtype)
    return linked(linked(result, count), prob)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    return (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()


def _small_binomial(n: Tensor, p: Tensor, generator: Any) -> Tensor:
    k = arange(TERMS, dtype=n._dtype).reshape(TERMS, *(1,) * n.dim())
    u = rand(n._shape, dtype=n._dtype, generator=generator)
    within = k <= n
    kept = where(within, k, full_like(k, 0.0))
    log_p, log_not = p.clamp(min=1e-30).log(), (-p).log1p()
    chance = _log_choose(n, kept) + kept * log_p + (n - kept) * log_not
    chance = where(within, chance, full_like(chance, -math.inf))
    return _count_below(u, chance).minimum(n)


def _large_binomial(n: Tensor, p: Tensor, generator: Any) -> Tensor:
    """Hoermann's transformed rejection (BTRS, 1993); p is at most 1/2 and n p at least 10."""
    spread = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    alpha = (2.83 + 5.1 / b) * spread
    quick = 0.92 - 4.2 / b
    mode = ((n + 1) * p).floor()
    tries = (ATTEMPTS, *n._shape)
    u = rand(tries, dtype=n._dtype, generator=generator) - 0.5
    v = 1 - rand(tries, dtype=n._dtype, generator=generator)
    us = 0.5 - u.abs()
    k = ((2 * a / us + b) * u + c).floor()
    inside = (k >= 0) & (k <= n)
    kept = where(inside, k, mode + 0 * k)
    ratio = (p / (1 - p)).log()
    weight = (v * alpha / (a / (us * us) + b)).log()
    bound = _log_choose(n, kept) - _log_choose(n, mode) + (kept - mode) * ratio
    at_once = (us >= 0.07) & (v <= quick)
    return _first(inside & (at_once | (weight <= bound)), kept)


FUNCTIONS = by_name(poisson, binomial, _standard_gamma, _standard_gamma_grad, _sample_dirichlet)
METHODS: dict[str, Any] = {}
