"""Distributions of vectors and matrices: multivariate normal, Wishart, LKJ."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import LOG_2PI, lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def batch_mv(matrix: Any, vector: Any) -> Any:
    """Matrices times vectors."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(lower: Any, x: Any) -> Any:
    """x^T (L L^T)^-1 x for batches of L and of x."""
    shape = torch.broadcast_shapes(lower.shape[:-2], x.shape[:-1])
    n = x.shape[-1]
    solved = torch.linalg.solve_triangular(
        lower.expand((*shape, n, n)), x.expand((*shape, n)).unsqueeze(-1), upper=False
    )
    return solved.squeeze(-1).pow(2).sum(-1)


def precision_to_scale_tril(precision: Any) -> Any:
    """The Cholesky factor of the inverse."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.flip(flipped, (-2, -1)).mT
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(inverse, identity.expand_as(inverse), upper=False)


def log_diagonal(lower: Any) -> Any:
    """The sum of the logarithms of the diagonal."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class ByMatrix(Distribution):
    """A distribution that is given one of covariance, precision or Cholesky factor."""

    _unbroadcasted_scale_tril: Any

    @staticmethod
    def _one_of(covariance: Any, precision: Any, tril: Any) -> tuple[str, Any]:
        given = {"covariance_matrix": covariance, "precision_matrix": precision,
                 "scale_tril": tril}  # fmt: skip
        found = [(name, value) for name, value in given.items() if value is not None]
        if len(found) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, value = found[0]
        if value.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        return name, value

    def _take_matrix(self, name: str, value: Any, batch_shape: Any) -> None:
        setattr(self, name, value.expand((*batch_shape, *value.shape[-2:])))
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = value
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(value)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(value)

    def _matrix(self, value: Any) -> Any:
        n = value.shape[-1]
        return value.expand((*self._batch_shape, n, n))

    @lazy_property
    def scale_tril(self) -> Any:
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        lower = self._unbroadcasted_scale_tril
        return self._matrix(lower @ lower.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        return self._matrix(torch.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(ByMatrix):
    """A vector of normal numbers that depend on each other.

    Exactly one of covariance_matrix, precision_matrix and scale_tril is given.
    """

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, value = self._one_of(covariance_matrix, precision_matrix, scale_tril)
        batch_shape = torch.broadcast_shapes(value.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, *loc.shape[-1:]))
        if validate_args is not False and self._validate_args:
            given = value.expand((*batch_shape, *value.shape[-2:]))
            self._check_matrix(name, given)
        self._take_matrix(name, value, batch_shape)
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)

    def _check_matrix(self, name: str, value: Any) -> None:
        constraint = self.arg_constraints[name]
        if not bool(constraint.check(value).all()):
            raise ValueError(
                f"Expected parameter {name} ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) of distribution {type(self).__name__} to satisfy the "
                f"constraint {constraint!r}, but found invalid values:\n{value}"
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = {"loc": 1, "covariance_matrix": 2, "scale_tril": 2, "precision_matrix": 2}
        new = self._expanded(MultivariateNormal, batch_shape, names, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        found = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return found.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        half_log_det = log_diagonal(self._unbroadcasted_scale_tril)
        return -0.5 * (self._event_shape[0] * LOG_2PI + distance) - half_log_det

    def entropy(self) -> Any:
        half_log_det = log_diagonal(self._unbroadcasted_scale_tril)
        found = 0.5 * self._event_shape[0] * (1.0 + LOG_2PI) + half_log_det
        return found if not self._batch_shape else found.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """A normal vector with covariance W W^T + diag(d), W of few columns."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch = torch.broadcast_shapes(loc.shape[:-1], cov_diag.shape[:-1], cov_factor.shape[:-2])
        self.loc = loc.expand((*batch, *event_shape))
        self.cov_diag = cov_diag.expand((*batch, *event_shape))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = self._capacitance(cov_factor, cov_diag)
        super().__init__(batch, event_shape, validate_args=validate_args)

    @staticmethod
    def _capacitance(factor: Any, diag: Any) -> Any:
        """The Cholesky factor of I + W^T D^-1 W."""
        weighed = factor.mT / diag.unsqueeze(-2)
        inner = weighed @ factor
        identity = torch.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        return torch.linalg.cholesky(inner + identity)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = {"loc": 1, "cov_diag": 1, "cov_factor": 2}
        new = self._expanded(LowRankMultivariateNormal, batch_shape, names, _instance)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return new

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Any:
        found = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return found.expand(self._batch_shape + self._event_shape)

    def _square(self, value: Any) -> Any:
        return value.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = torch.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        inner = scaled @ scaled.mT + identity
        return self._square(root * torch.linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_cov_factor
        return self._square(factor @ factor.mT + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Any:
        weighed = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = torch.linalg.solve_triangular(self._capacitance_tril, weighed, upper=False)
        return self._square(torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - a.mT @ a)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        wide = shape[:-1] + self.cov_factor.shape[-1:]
        eps_w = standard_normal(wide, self.loc.dtype, self.loc.device)
        eps_d = standard_normal(shape, self.loc.dtype, self.loc.device)
        spread = batch_mv(self._unbroadcasted_cov_factor, eps_w)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * eps_d

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diff = value - self.loc
        weighed = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        whole = (diff.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        distance = whole - batch_mahalanobis(self._capacitance_tril, batch_mv(weighed, diff))
        return -0.5 * (self._event_shape[0] * LOG_2PI + self._log_det() + distance)

    def _log_det(self) -> Any:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def entropy(self) -> Any:
        found = 0.5 * (self._event_shape[0] * (1.0 + LOG_2PI) + self._log_det())
        return found if not self._batch_shape else found.expand(self._batch_shape)


# The names under which other packages import these.
_batch_mv, _batch_mahalanobis = batch_mv, batch_mahalanobis
_precision_to_scale_tril = precision_to_scale_tril
