"""torch.testing: comparing tensors."""

from rushlight import names as _names
from rushlight.testing.compare import assert_allclose, assert_close
from rushlight.testing.make import make_tensor

__getattr__ = _names.getattr_of(__name__)

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
