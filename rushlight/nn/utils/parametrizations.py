"""Ready-made parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.spectral_norm import (
    as_matrix,
    check_iterations,
    default_dim,
    iterate,
    largest_singular_value,
)
from rushlight.nn.utils.weight_norm import norm_except_dim, scaled_to

Tensor = torch.Tensor
MAPS = ("matrix_exp", "cayley", "householder")


def tensor_of(module: Module, name: str) -> Tensor:
    """A parameter or buffer; raise when there is none."""
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


# --- weight norm ------------------------------------------------------------------------------


class _WeightNorm(Module):
    """The weight of a length and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled_to(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Its length, and the weight itself as the direction."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a parameter into length (original0) and direction (original1); return `module`.

    State dicts of the older `nn.utils.weight_norm` can be loaded.

    Example:
        >>> layer = weight_norm(torch.nn.Linear(3, 2))
        >>> layer.parametrizations.weight.original0.shape
        torch.Size([2, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: dict[str, Any], prefix: str, *unused: Any) -> None:
        for number, part in enumerate("gv"):
            old = f"{prefix}{name}_{part}"
            if old in state_dict:
                new = f"{prefix}parametrizations.{name}.original{number}"
                state_dict[new] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


# --- spectral norm ----------------------------------------------------------------------------


class _SpectralNorm(Module):
    """A weight divided by its largest singular value."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if dim >= weight.dim() or dim < -weight.dim():
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.dim()}, {weight.dim() - 1}] but got {dim})"
            )
        check_iterations(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        return weight / largest_singular_value(matrix, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value: it should have the norm already."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a parameter by its largest singular value; return `module`.

    Example:
        >>> layer = spectral_norm(torch.nn.Linear(4, 4))
        >>> abs(torch.linalg.matrix_norm(layer.weight, 2).item() - 1) < 0.1
        True
    """
    weight = tensor_of(module, name)
    dim = default_dim(module) if dim is None else dim
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, norm)
    return module


# --- orthogonal matrices ----------------------------------------------------------------------


def is_orthogonal(q: Tensor) -> bool:
    """Say if the columns are orthonormal, up to rounding."""
    rows, columns = q.shape[-2:]
    identity = torch.eye(columns, dtype=q.dtype, device=q.device)
    tolerance = 10.0 * rows * torch.finfo(q.dtype).eps
    return torch.allclose(q.mH @ q, identity, atol=tolerance)


def make_orthogonal(a: Tensor) -> Tensor:
    """The orthogonal factor of a QR decomposition with a positive diagonal."""
    x, tau = torch.geqrf(a)
    q = torch.linalg.householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """An orthogonal matrix of any matrix, by one of three maps."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        is_wide = x.size(-2) < x.size(-1)
        x = x.mT if is_wide else x
        q = self._by_householder(x) if self.orthogonal_map == "householder" else self._by_skew(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if is_wide else q

    def _by_skew(self, x: Tensor) -> Tensor:
        """exp(A), or Cayley's (1 - A/2)^-1 (1 + A/2), of the skew matrix A = X - X^T."""
        rows, columns = x.shape[-2:]
        x = x.tril()
        if rows != columns:
            fill = x.new_zeros(rows, rows - columns).expand(*x.shape[:-2], -1, -1)
            x = torch.cat([x, fill], dim=-1)
        a = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = torch.matrix_exp(a)
        else:
            identity = torch.eye(rows, dtype=a.dtype, device=a.device)
            q = torch.linalg.solve(identity - 0.5 * a, identity + 0.5 * a)
        return q if rows == columns else q[..., :columns]

    def _by_householder(self, x: Tensor) -> Tensor:
        """A product of reflections; the diagonal holds signs."""
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        signs = x.detach().diagonal(dim1=-2, dim2=-1).int()
        return torch.linalg.householder_product(a, tau) * signs.unsqueeze(-2)

    @torch.no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        """The matrix that gives `q`, or the nearest orthogonal one."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        given, is_wide = q, q.size(-2) < q.size(-1)
        q = q.mT if is_wide else q
        if not hasattr(self, "base"):
            return self._without_base(q, is_wide)
        rows, columns = q.shape[-2:]
        if rows == columns:
            base = q.clone() if is_orthogonal(q) else make_orthogonal(q)
        else:
            # Any columns that complete the given ones to a basis.
            more = torch.randn(*q.shape[:-2], rows, rows - columns, dtype=q.dtype, device=q.device)
            base = make_orthogonal(torch.cat([q, more], dim=-1))
        self.base = base
        # Of minus the identity all three maps give the identity.
        start = torch.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start

    def _without_base(self, q: Tensor, is_wide: bool) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        a, tau = torch.geqrf(q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        signs = torch.where(tau == 0.0, -diagonal.sign(), diagonal.sign())
        a = a.diagonal_scatter(signs, dim1=-2, dim2=-1)
        return a.mT if is_wide else a


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Make a parameter an orthogonal matrix (or rows, or columns of one); return `module`.

    Args:
        orthogonal_map: 'matrix_exp', 'cayley' or 'householder'; for square matrices the first by
            default, else the last.
        use_trivialization: go on from the matrix that is there; costs a buffer.

    Example:
        >>> layer = orthogonal(torch.nn.Linear(3, 3))
        >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(3), atol=1e-5)
        True
    """
    weight = tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        is_square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if is_square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    if orthogonal_map == "householder" and weight.is_complex():
        raise ValueError("The householder parametrization does not support complex tensors.")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module
