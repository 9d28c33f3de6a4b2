"""Distributions of covariances and correlations: Wishart, LKJ."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.matrices import ByMatrix, log_diagonal
from rushlight.distributions.positive import Beta, Chi2

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices; concentration 1 is uniform over the matrices."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        self.concentration = torch.as_tensor(concentration, dtype=getattr(
            concentration, "dtype", torch.get_default_dtype()))  # fmt: skip
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        self._beta = self._row_lengths()

    def _row_lengths(self) -> Any:
        """The squared length of each row's part below the diagonal (the onion method)."""
        marginal = self.concentration + 0.5 * (self.dim - 2)
        like = self.concentration
        offset = torch.arange(self.dim - 1, dtype=like.dtype, device=like.device)
        offset = torch.cat([offset.new_zeros(1), offset])
        return Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(LKJCholesky, batch_shape, {"concentration": 0}, _instance)
        new.dim = self.dim
        new._beta = self._beta.expand((*batch_shape, self.dim))
        return new

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            u = torch.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
            sphere = u / u.norm(dim=-1, keepdim=True)
            sphere[..., 0, :].fill_(0.0)
            w = torch.sqrt(y) * sphere
            eps = torch.finfo(w.dtype).tiny
            diagonal = torch.clamp(1 - torch.sum(w**2, dim=-1), min=eps).sqrt()
            return w + torch.diag_embed(diagonal)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, dtype=value.dtype, device=value.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        constant = torch.lgamma(alpha) * less - torch.mvlgamma(alpha - 0.5, less)
        return unnormalized - (0.5 * less * math.log(math.pi) - constant)


class Wishart(ByMatrix, ExponentialFamily):
    """The sum of x x^T of `df` normal vectors x with this covariance."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        name, value = self._one_of(covariance_matrix, precision_matrix, scale_tril)
        df = df if isinstance(df, torch.Tensor) else value.new_tensor(float(df))
        batch_shape = torch.broadcast_shapes(value.shape[:-2], df.shape)
        event_shape = value.shape[-2:]
        self.df = df.expand(batch_shape)
        if bool(self.df.le(event_shape[-1] - 1).any()):
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        self._take_matrix(name, value, batch_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._chi2 = self._diagonal()

    def _diagonal(self) -> Any:
        offset = torch.arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        return Chi2(self.df.unsqueeze(-1) - offset)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = {"df": 0, "covariance_matrix": 2, "scale_tril": 2, "precision_matrix": 2}
        new = self._expanded(Wishart, batch_shape, names, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._chi2 = self._chi2.expand((*batch_shape, self._event_shape[-1]))
        return new

    @property
    def mean(self) -> Any:
        return self.df.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor <= 0, math.nan, factor)
        return factor.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = torch.einsum("...i,...j->...ij", diagonal, diagonal)
        return self.df.reshape(self._batch_shape + (1, 1)) * (v.pow(2) + outer)

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """Bartlett's decomposition: a lower triangle of normal and Chi2 numbers."""
        shape = torch.Size(sample_shape)
        eps = torch.finfo(self.df.dtype).eps
        diagonal = self._chi2.rsample(shape).clamp(min=eps).sqrt()
        whole = shape + self._batch_shape + self._event_shape
        below = torch.randn(whole, dtype=self.df.dtype, device=self.df.device)
        chol = self._unbroadcasted_scale_tril @ (below.tril(-1) + diagonal.diag_embed())
        return chol @ chol.mT

    def _log_gamma(self, df: Any) -> Any:
        return torch.mvlgamma(df / 2, self._event_shape[-1])

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        lower = self._unbroadcasted_scale_tril
        value_det = 2 * log_diagonal(torch.linalg.cholesky(value))
        inner = torch.cholesky_solve(value, lower).diagonal(dim1=-2, dim2=-1).sum(-1)
        constant = nu * (p * math.log(2.0) / 2 + log_diagonal(lower)) + self._log_gamma(nu)
        return -constant + (nu - p - 1) / 2 * value_det - inner / 2

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        lower = self._unbroadcasted_scale_tril
        steps = torch.arange(p, dtype=nu.dtype, device=nu.device)
        digammas = torch.digamma((nu.unsqueeze(-1) - steps) / 2).sum(-1)
        return (
            (p + 1) * (p * math.log(2.0) / 2 + log_diagonal(lower))
            + self._log_gamma(nu)
            - (nu - p - 1) / 2 * digammas
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Any, Any]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        degrees = y + (p + 1) / 2
        return degrees * (
            -torch.linalg.slogdet(-2 * x).logabsdet + math.log(2.0) * p
        ) + torch.mvlgamma(degrees, p)
