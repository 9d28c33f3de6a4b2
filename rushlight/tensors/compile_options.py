"""The names that `compile(options=...)` takes, and the types of their values.

In: the options of a call of `compile`. Out: the same by name with `_` for `-`, or PyTorch's error
for a name that is not known or a value of another type. Always true: a name that is accepted and
changes nothing here names a choice of PyTorch's compiler that changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAKERS = "max_autotune_gemm_backends"
# These change what is compiled here.
HEARD: dict[str, tuple[type, ...]] = {
    "max_autotune": (bool,),
    "max_autotune_gemm": (bool,),
    MAKERS: (str,),
}
_FLAGS = """
    aggressive_fusion allow_buffer_reuse assume_aligned_inputs autotune_in_subproc
    autotune_local_cache autotune_multi_device b2b_gemm_pass batch_fusion benchmark_fusion
    benchmark_harness benchmark_kernel combo_kernels comment_origin comprehensive_padding
    constant_and_index_propagation conv_1x1_as_mm coordinate_descent_check_all_directions
    coordinate_descent_tuning cpp.dynamic_threads cpp.enable_kernel_profile
    cpp.enable_tiling_heuristics cpp.weight_prepack cpp_wrapper dce debug decompose_mem_bound_mm
    deterministic disable_progress efficient_conv_bn_eval_fx_passes emulate_precision_casts
    epilogue_fusion epilogue_fusion_first fallback_random force_fuse_int_mm_with_mul freezing
    freezing_discard_parameters fx_graph_cache graph_partition group_fusion implicit_fallbacks
    inplace_buffers joint_graph_constant_folding keep_output_stride layout_optimization
    loop_ordering_after_fusion max_autotune_pointwise memory_planning nan_asserts
    optimize_scatter_upon_const_tensor pad_channels_last pattern_matcher permute_fusion
    profiler_mark_wrapper_call prologue_fusion reorder_for_compute_comm_overlap
    reorder_for_locality reorder_for_peak_memory search_autotune_cache shape_padding size_asserts
    split_cat_fx_passes split_reductions static_weight_shapes trace.enabled trace.graph_diagram
    trace.save_real_tensors triton.autotune_pointwise triton.codegen_upcast_to_fp32
    triton.cooperative_reductions triton.cudagraph_skip_dynamic_graphs
    triton.cudagraph_support_input_mutation triton.cudagraph_trees triton.cudagraphs
    triton.dense_indexing triton.divisible_by_16 triton.enable_persistent_tma_matmul
    triton.persistent_reductions triton.prefer_nd_tiling triton.skip_cudagraph_warmup
    triton.store_cubin triton.unique_kernel_names triton.use_block_ptr
    unsafe_skip_cache_dynamic_shape_guards use_mixed_mm verbose_progress
"""
_COUNTS = """
    compile_threads coordinate_descent_search_radius cpp.max_horizontal_fusion_size
    cpp.min_chunk_size cpp.simdlen cpp.threads max_fusion_size min_num_split
    padding_alignment_bytes realize_opcount_threshold realize_reads_threshold triton.max_tiles
    triton.multi_kernel triton.spill_threshold unroll_reductions_threshold
"""
_WORDS = """
    cpp.enable_floating_point_contract_flag cpu_backend cuda_backend max_autotune_conv_backends
    max_autotune_gemm_search_space triton.descriptive_names worker_start_method
"""
# Their values are not looked at.
_OBJECTS = "fx_graph_remote_cache autotune_remote_cache guard_filter_fn post_grad_fusion_options"
NONE = type(None)
KNOWN: Mapping[str, tuple[type, ...]] = {
    **HEARD,
    **dict.fromkeys(_FLAGS.split(), (bool,)),
    **dict.fromkeys(_COUNTS.split(), (int, NONE)),
    **dict.fromkeys(_WORDS.split(), (str,)),
    **dict.fromkeys(_OBJECTS.split(), (object,)),
}


def check_options(options: Any, any_name: bool = False) -> dict[str, Any]:
    """RuntimeError, with PyTorch's words, for a name or a type that is not known; TypeError where
    the options are no mapping of names. `any_name`: others may be there, and are left out."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TypeError(
            f"compile: argument 'options' must be a dict of names and values, got {options!r}"
        )
    found = {}
    for name, value in options.items():
        plain = name.replace("-", "_")
        kinds = KNOWN.get(plain)
        if kinds is None and any_name:
            continue
        if kinds is None:
            known = sorted(KNOWN)
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {known}")
        if not isinstance(value, kinds):
            got, wanted = type(value).__name__, kinds[0].__name__
            raise RuntimeError(f"Unexpected type of attr {name}, got {got} should be {wanted}")
        found[plain] = value
    return found
