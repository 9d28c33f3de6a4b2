"""`torch.nn.parallel`: a module on several devices of one process."""

from rushlight.nn.parallel.data_parallel import DataParallel

__all__ = ["DataParallel"]
