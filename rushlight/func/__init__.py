"""`torch.func`: derivatives and batches of functions, modules as functions of their parameters."""

from rushlight import names as _names
from rushlight.func.batched import vmap
from rushlight.func.call import functional_call, stack_module_state
from rushlight.func.gradients import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
