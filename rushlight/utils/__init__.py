"""`torch.utils`: data loading, checkpointing, handles of hooks."""

from rushlight.utils import checkpoint, data, hooks
from rushlight.utils.typename import typename

__all__ = ["checkpoint", "data", "hooks", "typename"]
