"""`torch.distributed.algorithms`: `join` and wrappers for activation checkpointing."""

from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
