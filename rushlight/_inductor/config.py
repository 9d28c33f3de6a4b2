"""torch._inductor.config: settings of PyTorch's compiler. Two things are heard (`tell` below: who
makes products, whether they are measured); the others change nothing here."""

from types import SimpleNamespace as _Group

from rushlight import names as _names
from rushlight.base.config import config as _config
from rushlight.names.settings import patch_of as _patch_of

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "aot_inductor", "benchmark_kernel", "compile_threads", "conv_1x1_as_mm",
    "coordinate_descent_check_all_directions", "coordinate_descent_tuning", "cpp",
    "cuda", "cutedsl_enable_autotuning", "dce", "debug", "disable_progress",
    "emulate_precision_casts", "epilogue_fusion",
    "fallback_random", "force_disable_caches", "force_fuse_int_mm_with_mul", "freezing",
    "fx_graph_cache", "fx_graph_remote_cache", "max_autotune", "max_autotune_gemm",
    "max_autotune_gemm_backends", "max_autotune_pointwise", "patch", "permute_fusion",
    "prologue_fusion", "reorder_for_compute_comm_overlap", "shape_padding", "size_asserts",
    "split_reductions", "trace", "triton", "use_mixed_mm",
]  # fmt: skip
patch = _patch_of(__name__)

benchmark_kernel = False
compile_threads = 1
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cutedsl_enable_autotuning = False
debug = False
disable_progress = True
dce = False
emulate_precision_casts = False
epilogue_fusion = True
fallback_random = False
force_disable_caches = False
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
fx_graph_remote_cache = None
max_autotune = _config.outside("max_autotune")
max_autotune_gemm = False
max_autotune_gemm_backends = _config.outside("max_autotune_gemm_backends")
max_autotune_pointwise = False
permute_fusion = False
prologue_fusion = True
reorder_for_compute_comm_overlap = False
shape_padding = True
size_asserts = True
split_reductions = True
trace = _Group(enabled=False, debug_dir=None, graph_diagram=False)
triton = _Group(
    cudagraphs=False, cudagraph_trees=True, cudagraph_skip_dynamic_graphs=False,
    unique_kernel_names=True, store_cubin=False, multi_kernel=0,
)  # fmt: skip
use_mixed_mm = True
cpp = _Group(threads=-1, simdlen=None, enable_kernel_profile=False)
aot_inductor = _Group(output_path="")
# cutlass_backend: the spelling of some articles for CUTLASS among the makers.
cuda = _Group(cutlass_backend=False, arch=None, version=None)


def _makers() -> str:
    named = ",".join(name.strip().upper() for name in max_autotune_gemm_backends.split(","))
    asked = cuda.cutlass_backend and "CUTLASS" not in named.split(",")
    return f"CUTLASS,{named}" if asked else named


def _measures() -> bool:
    return bool(max_autotune or max_autotune_gemm or cutedsl_enable_autotuning)


_config.tell("max_autotune_gemm_backends", _makers)
_config.tell("max_autotune", _measures)
