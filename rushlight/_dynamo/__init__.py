"""torch._dynamo: names of PyTorch's tracer that programs use. A capture here runs the code itself,
so a function need not be kept out of it or let into it."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight._dynamo import config, exc
from rushlight._dynamo.optimized_module import OptimizedModule
from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable",
    "disallow_in_graph", "exc", "forbid_in_graph", "graph_break", "is_compiling", "list_backends",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace",
    "optimize", "reset", "set_stance", "substitute_in_graph",
]  # fmt: skip


def optimize(backend: Any = None, *, nopython: bool = False, dynamic: Any = None, **_: Any) -> Any:
    """The decorator that `torch.compile` is."""
    return lambda function: torch.compile(function, fullgraph=nopython, dynamic=dynamic)


def graph_break(msg: str = "") -> None:
    """Accepted: a capture is not cut by request."""


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Accepted: every size is a variable of its program from its second value on."""


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """Accepted: see `mark_dynamic`."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accepted: a replay finds its tensors by the objects, not by addresses."""


def forbid_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


disallow_in_graph = nonstrict_trace = forbid_in_graph
