"""`torch.fx`."""

from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = ["wrap"]


def wrap(fn_or_name: Any) -> Any:
    """Mark a function as one that a tracer does not look into; gives it back."""
    return fn_or_name
