"""`torch.nn.parallel`: a module on several devices of one process."""

from rushlight.nn.parallel.data_parallel import DataParallel
from rushlight.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]
