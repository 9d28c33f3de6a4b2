"""torch.linalg: products, norms, and factorisations by the host's LAPACK."""

from rushlight.tensors.functions_matrix import LINALG as _LINALG

globals().update(_LINALG)
__all__ = list(_LINALG)
