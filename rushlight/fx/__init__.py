"""`torch.fx`: programs as graphs of calls that can be read and changed."""

from typing import Any

from rushlight import names as _names
from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import GraphModule, Interpreter, Transformer
from rushlight.fx.node import IMPURE, Node, map_arg
from rushlight.fx.rewriter import replace_pattern
from rushlight.fx.trace import Proxy, Tracer, symbolic_trace

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "map_arg",
    "has_side_effect", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip


def wrap(fn_or_name: Any) -> Any:
    """Mark a function as one that a tracer does not look into; gives it back."""
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """Mark a function whose calls stay in a graph although nobody reads them; gives it back."""
    IMPURE.add(fn)
    return fn
