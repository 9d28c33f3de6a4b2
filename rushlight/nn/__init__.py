"""`torch.nn`: modules, layers, losses, initialization."""

from rushlight import names as _names
from rushlight.losses import LinearCrossEntropyOptions
from rushlight.nn import functional, init, modules, parameter, utils
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "Buffer",
    "LinearCrossEntropyOptions",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
    *modules.__all__,
]
