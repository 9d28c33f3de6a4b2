"""`torch.nn.parallel`: a module on several devices of one process."""

from rushlight.nn.parallel.data_parallel import DataParallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.nn.parallel.on_devices import data_parallel, parallel_apply, replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip
