"""torch.testing: comparing tensors."""

from rushlight import names as _names
from rushlight.testing.compare import assert_close

__getattr__ = _names.getattr_of(__name__)

__all__ = ["assert_close"]
