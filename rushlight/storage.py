"""torch.storage: the memory behind tensors as objects."""

from rushlight import names as _names
from rushlight.tensors.untyped import TypedStorage, UntypedStorage

__getattr__ = _names.getattr_of(__name__)
__all__ = ["TypedStorage", "UntypedStorage"]
