"""torch.masked: reductions and normalizations under a mask."""

from rushlight import names as _names
from rushlight.tensors.functions_masked import MASKED as _MASKED

__getattr__ = _names.getattr_of(__name__)

globals().update(_MASKED)
__all__ = list(_MASKED)
