"""`torch.utils`: data loading, handles of hooks."""

from rushlight.utils import data, hooks
from rushlight.utils.typename import typename

__all__ = ["data", "hooks", "typename"]
