"""Names of PyTorch's logs, as TORCH_LOGS and `torch._logging.set_logs` spell them."""

from __future__ import annotations

# With a level of `logging`.
LEVELS = frozenset(
    """all aot async_compile autograd c10d cache ddp distributed dtensor dynamic dynamo export
    fake_tensor fsdp inductor native_dsl onnx pp torch""".split()
)
# On or off.
PARTS = frozenset(
    """annotation aot_graphs aot_graphs_effects aot_joint_graph auto_chunker autotuning benchmarking
    bytecode caching compiled_autograd compiled_autograd_verbose compute_dependencies
    cudagraph_static_inputs cudagraphs ddp_graphs fusion graph graph_breaks graph_code
    graph_code_verbose graph_region_expansion graph_sizes guards hierarchical_compile incremental
    inductor_metrics ir_post_fusion ir_pre_fusion kernel_code loop_ordering loop_tiling
    node_runtime_estimation not_implemented onnx_diagnostics output_code overlap overlap_scheduling
    perf_hints post_grad_graphs pre_grad_graphs recompiles recompiles_verbose schedule side_effects
    sym_node trace_bytecode trace_call trace_shape_events trace_source verbose_guards""".split()
)


def are_logs(text: str) -> bool:
    """Are these names of logs, each with + or - in front or without, or of modules (with dots)?"""
    names = (word.strip().lstrip("+-") for word in text.split(","))
    return not text or all("." in name or name in LEVELS | PARTS for name in names)
