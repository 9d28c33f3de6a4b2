"""`torch.fx`: programs as graphs of calls that can be read and changed."""

from typing import Any

from rushlight import names as _names
from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import GraphModule, Interpreter, Transformer
from rushlight.fx.node import Node, map_arg
from rushlight.fx.trace import Proxy, Tracer, symbolic_trace

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "map_arg",
    "symbolic_trace", "wrap",
]  # fmt: skip


def wrap(fn_or_name: Any) -> Any:
    """Mark a function as one that a tracer does not look into; gives it back."""
    return fn_or_name
