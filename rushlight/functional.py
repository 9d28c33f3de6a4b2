"""torch.functional: names that PyTorch keeps here too."""

from rushlight import names as _names
from rushlight.tensors.families import FUNCTIONS as _FUNCTIONS

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum", "lu", "norm",
    "split", "tensordot", "unique", "unique_consecutive",
]  # fmt: skip

atleast_1d = _FUNCTIONS["atleast_1d"]
atleast_2d = _FUNCTIONS["atleast_2d"]
atleast_3d = _FUNCTIONS["atleast_3d"]
block_diag = _FUNCTIONS["block_diag"]
broadcast_shapes = _FUNCTIONS["broadcast_shapes"]
broadcast_tensors = _FUNCTIONS["broadcast_tensors"]
cartesian_prod = _FUNCTIONS["cartesian_prod"]
cdist = _FUNCTIONS["cdist"]
chain_matmul = _FUNCTIONS["chain_matmul"]
einsum = _FUNCTIONS["einsum"]
lu = _FUNCTIONS["lu"]
norm = _FUNCTIONS["norm"]
split = _FUNCTIONS["split"]
tensordot = _FUNCTIONS["tensordot"]
unique = _FUNCTIONS["unique"]
unique_consecutive = _FUNCTIONS["unique_consecutive"]
