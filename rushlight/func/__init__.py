"""`torch.func`: modules as functions of their parameters."""

from rushlight import names as _names
from rushlight.func.call import functional_call, stack_module_state

__getattr__ = _names.getattr_of(__name__)
__all__ = ["functional_call", "stack_module_state"]
