"""`torch.distributed.nn`: collectives through which gradients flow."""

from rushlight.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip
