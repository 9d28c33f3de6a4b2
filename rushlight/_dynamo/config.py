"""torch._dynamo.config: settings of PyTorch's tracer; they change nothing here."""

from rushlight import names as _names
from rushlight.names.settings import patch_of as _patch_of

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "accumulated_cache_size_limit", "accumulated_recompile_limit", "allow_rnn",
    "assume_static_by_default", "automatic_dynamic_shapes", "cache_size_limit",
    "capture_dynamic_output_shape_ops", "capture_scalar_outputs", "compiled_autograd",
    "disable", "dynamic_shapes", "error_on_recompile", "fail_on_recompile_limit_hit",
    "force_parameter_static_shapes", "guard_nn_modules", "inline_inbuilt_nn_modules",
    "log_level", "numpy_default_float", "optimize_ddp", "patch", "recompile_limit",
    "skip_nnmodule_hook_guards", "specialize_int", "suppress_errors", "trace_numpy", "verbose",
]  # fmt: skip
patch = _patch_of(__name__)

allow_rnn = False
accumulated_cache_size_limit = accumulated_recompile_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
disable = False
dynamic_shapes = True
error_on_recompile = False
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
numpy_default_float = "float64"
optimize_ddp = True
skip_nnmodule_hook_guards = True
specialize_int = False
suppress_errors = False
trace_numpy = True
verbose = False
