"""`torch.overrides`: classes and modes that take over the functions they are given to."""

from rushlight import names as _names
from rushlight.overrides.answers import (
    get_default_nowrap_functions,
    get_overridable_functions,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)
from rushlight.overrides.mode import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
)

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass",
    "TorchFunctionMode", "get_default_nowrap_functions", "get_overridable_functions",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "resolve_name", "wrap_torch_function",
]  # fmt: skip
