"""`torch.svd_lowrank`, `torch.pca_lowrank`: singular values of a big matrix by a random sketch.

After Halko, Martinsson, Tropp: Finding structure with randomness (2009), algorithms 4.4 and 5.1.
"""

from __future__ import annotations

import rushlight as torch

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def get_approximate_basis(
    A: torch.Tensor, q: int, niter: int | None = 2, M: torch.Tensor | None = None
) -> torch.Tensor:
    """Q (*, m, q) with orthonormal columns such that Q @ Q.mH @ (A - M) is near A - M."""
    start = torch.randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device)
    lessened = A if M is None else A - M
    basis = torch.linalg.qr(lessened @ start).Q
    for _ in range(2 if niter is None else niter):
        back = torch.linalg.qr(lessened.mH @ basis).Q
        basis = torch.linalg.qr(lessened @ back).Q
    return basis


def svd_lowrank(
    A: torch.Tensor, q: int | None = 6, niter: int | None = 2, M: torch.Tensor | None = None
) -> Triple:
    """U (*, m, q), S (*, q), V (*, n, q) with U diag(S) V^H near A - M.

    q: how many singular values, a little more than the rank. niter: rounds that sharpen them.

    >>> import rushlight as torch
    >>> torch.svd_lowrank(torch.ones(4, 3), q=1)[1]
    tensor([3.4641])
    """
    q = 6 if q is None else q
    rows, columns = A.shape[-2:]
    if not 0 <= q <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(rows, columns)}"
        )
    given = A.mH if rows < columns else A
    mean = M.mH if M is not None and rows < columns else M
    if mean is not None:
        mean = mean.expand(given.shape)
    basis = get_approximate_basis(given, q, niter, mean)
    small = basis.mH @ (given if mean is None else given - mean)
    u, s, vh = torch.linalg.svd(small, full_matrices=False)
    left, right = basis @ u, vh.mH
    return (right, s, left) if rows < columns else (left, s, right)


def pca_lowrank(
    A: torch.Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> Triple:
    """The principal components V (*, n, q) of rows of data, with U and S, as `svd_lowrank`.

    center: subtract each column's mean first. q: min(6, m, n) if None.

    >>> import rushlight as torch
    >>> torch.pca_lowrank(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)[1]
    tensor([1.4142])
    """
    rows, columns = A.shape[-2:]
    q = min(6, rows, columns) if q is None else q
    if not 0 <= q <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(rows, columns)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
