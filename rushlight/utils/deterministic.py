"""torch.utils.deterministic: results are always deterministic; the switch is kept."""

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = ["fill_uninitialized_memory"]

fill_uninitialized_memory = True
