"""torch.signal: window functions."""

from rushlight.signal import windows

__all__ = ["windows"]
