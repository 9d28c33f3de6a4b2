"""The von Mises distribution: a normal distribution on a circle."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]
ATTEMPTS = 24


def log_bessel(x: Any, order: int) -> Any:
    """log of the modified Bessel function of the first kind, order 0 or 1, also for large x."""
    scaled = torch.special.i0e(x) if order == 0 else torch.special.i1e(x)
    return scaled.log() + x


class VonMises(Distribution):
    """exp(concentration * cos(x - loc)) on [-pi, pi)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = {"loc": 0, "concentration": 0}
        return self._expanded(VonMises, batch_shape, names, _instance)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        height = self.concentration * torch.cos(value - self.loc)
        return height - math.log(2 * math.pi) - log_bessel(self.concentration, 0)

    @lazy_property
    def _proposal_r(self) -> Any:
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        exact = (1 + rho**2) / (2 * rho)
        # For a small concentration the quotient loses all digits: its series there.
        return torch.where(k < 1e-5, 1 / k + k, exact)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Best and Fisher (1979): a wrapped Cauchy number, accepted or not. A fixed number of
        tries (each is accepted with a chance of at least 0.65); the first accepted one counts."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            tries = (ATTEMPTS, *shape)
            u1, u2, u3 = (torch.rand(tries, dtype=k.dtype, device=k.device) for _ in range(3))
            z = torch.cos(math.pi * u1)
            f = (1 + self._proposal_r * z) / (self._proposal_r + z)
            c = k * (self._proposal_r - f)
            accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            angles = (u3 - 0.5).sign() * f.clamp(min=-1, max=1).acos()
            chosen = angles[-1]
            for i in reversed(range(ATTEMPTS - 1)):
                chosen = torch.where(accepted[i], angles[i], chosen)
            return ((chosen + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The circular variance."""
        return 1 - (log_bessel(self.concentration, 1) - log_bessel(self.concentration, 0)).exp()
