"""`torch.distributed.elastic.multiprocessing`: errors of processes."""

from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
