"""`torch.distributed.tensor`: tensors that lie on a mesh of processes; see ../README.md."""

from rushlight import names as _names
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.make import (
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "DTensor", "DeviceMesh", "distribute_tensor", "distribute_module", "init_device_mesh", "Shard",
    "Replicate", "Partial", "Placement", "ones", "empty", "full", "rand", "randn", "zeros",
]  # fmt: skip
