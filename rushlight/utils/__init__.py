"""`torch.utils`: data loading, checkpointing, handles of hooks."""

from rushlight import names as _names
from rushlight.utils import checkpoint, data, hooks
from rushlight.utils.swap import swap_tensors
from rushlight.utils.typename import typename

__getattr__ = _names.getattr_of(__name__)

__all__ = ["checkpoint", "data", "hooks", "swap_tensors", "typename"]
