"""torch.signal: window functions."""

from rushlight import names as _names
from rushlight.signal import windows

__getattr__ = _names.getattr_of(__name__)

__all__ = ["windows"]
