"""torch.autograd: gradients of recorded calls. See README.md for how the pieces fit."""

from rushlight import names as _names
from rushlight.autograd import function, graph
from rushlight.autograd.api import backward, grad
from rushlight.autograd.function import Function, FunctionCtx
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck
from rushlight.autograd.mode import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    no_grad,
    saved_tensors_hooks,
    set_detect_anomaly,
    set_grad_enabled,
)
from rushlight.autograd.variable import Variable

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "Function", "FunctionCtx", "Variable",
    "backward", "detect_anomaly", "enable_grad", "function", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "no_grad", "saved_tensors_hooks",
    "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
