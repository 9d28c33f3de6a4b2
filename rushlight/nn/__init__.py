"""`torch.nn`: modules, layers, losses, initialization."""

from rushlight import names as _names
from rushlight.losses import LinearCrossEntropyOptions
from rushlight.nn import functional, grad, init, modules, parallel, parameter, utils
from rushlight.nn.factory import factory_kwargs
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn.parallel import DataParallel
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "Buffer",
    "DataParallel",
    "LinearCrossEntropyOptions",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
    *modules.__all__,
]
_names.lend(
    f"{__name__}.modules", "rushlight.nn", "rushlight.nn.modules.utils", "rushlight.nn.init",
    "rushlight",
)  # fmt: skip
