"""torch._subclasses: tensors without values."""

from rushlight import names as _names
from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__getattr__ = _names.getattr_of(__name__)
__all__ = ["FakeTensor", "FakeTensorMode"]
