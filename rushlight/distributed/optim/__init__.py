"""`torch.distributed.optim`: optimizers of several processes."""

from rushlight.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = ["ZeroRedundancyOptimizer"]
