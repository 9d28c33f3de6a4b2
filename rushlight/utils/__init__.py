"""`torch.utils`: data loading, checkpointing, handles of hooks."""

from rushlight import names as _names
from rushlight.utils import checkpoint, data, hooks
from rushlight.utils.typename import typename

__getattr__ = _names.getattr_of(__name__)

__all__ = ["checkpoint", "data", "hooks", "typename"]
