"""torch.functional: names that PyTorch keeps here too."""

from rushlight import names as _names
from rushlight.tensors.families import FUNCTIONS as _FUNCTIONS

__getattr__ = _names.getattr_of(__name__)

_NAMES = """atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors
cartesian_prod cdist chain_matmul einsum norm split tensordot unique unique_consecutive
lu""".split()
globals().update({name: _FUNCTIONS[name] for name in _NAMES})
__all__ = _NAMES
