"""`torch.nn.parallel`: a module on several devices of one process."""

from rushlight.nn.parallel import comm
from rushlight.nn.parallel.data_parallel import DataParallel, data_parallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.replicate import replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "comm", "data_parallel", "gather",
    "parallel_apply", "replicate", "scatter",
]  # fmt: skip
