"""torch._higher_order_ops: loops whose steps are functions."""

from rushlight import names as _names
from rushlight._higher_order_ops.associative_scan import associative_scan
from rushlight._higher_order_ops.loops import cond, scan, while_loop

__getattr__ = _names.getattr_of(__name__)
__all__ = ["associative_scan", "cond", "scan", "while_loop"]
