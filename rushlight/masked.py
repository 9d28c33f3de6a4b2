"""torch.masked: reductions and normalizations under a mask."""

from rushlight.tensors.functions_masked import MASKED as _MASKED

globals().update(_MASKED)
__all__ = list(_MASKED)
