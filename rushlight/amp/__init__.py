"""torch.amp: autocast and GradScaler."""

from rushlight import names as _names
from rushlight.amp.autocast import autocast, custom_bwd, custom_fwd, is_autocast_available
from rushlight.amp.grad_scaler import GradScaler

__getattr__ = _names.getattr_of(__name__)

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
