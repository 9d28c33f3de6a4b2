"""torch.linalg: products, norms, and factorisations by the host's LAPACK."""

from rushlight import names as _names
from rushlight.tensors.functions_matrix import LINALG as _LINALG

__getattr__ = _names.getattr_of(__name__)

globals().update(_LINALG)
__all__ = list(_LINALG)
