"""`torch.distributed.elastic`: errors of processes that a launcher started."""

from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
