"""`torch.utils`: data loading."""

from rushlight.utils import data

__all__ = ["data"]
