"""torch.testing: comparing tensors."""

from rushlight.testing.compare import assert_close

__all__ = ["assert_close"]
