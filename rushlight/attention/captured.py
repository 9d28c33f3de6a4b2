"""Tensors that a score_mod captures: found on its tape, so that they get gradients.

A score_mod is called again for every tile and in the backward pass. `frozen` keeps what its
closures hold now; `Boundary` finds where the tape that one call records meets tape or leaves from
before the call. Those edges are what the call captured, however it got hold of them (closures,
globals, attributes of a module).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import rushlight as torch
from rushlight.autograd.node import AccumulateGrad, GradFn
from rushlight.autograd.protocol import TENSORS

Edge = tuple[GradFn, int]


def frozen(function: Callable, seen: dict[int, Callable] | None = None) -> Callable:
    """The function with the values its closures have now: a loop variable may change later."""
    seen = {} if seen is None else seen
    if id(function) in seen:
        return seen[id(function)]
    if isinstance(function, functools.partial):
        inner = frozen(function.func, seen)
        return functools.partial(inner, *function.args, **function.keywords)
    if not isinstance(function, types.FunctionType) or not function.__closure__:
        return function
    cells = tuple(types.CellType() for _ in function.__closure__)
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    seen[id(function)] = copy
    for cell, old in zip(cells, function.__closure__, strict=True):
        try:
            value = old.cell_contents
        except ValueError:  # a name that has no value yet
            continue
        is_code = isinstance(value, types.FunctionType | functools.partial)
        cell.cell_contents = frozen(value, seen) if is_code else value
    return copy


def sequence_mark() -> int:
    """Gradient functions made from now on have a larger sequence number."""
    return GradFn((), ()).sequence


class Boundary:
    """Edges of a fresh tape that leave it."""

    def __init__(self, result: torch.Tensor, mark: int, own: torch.Tensor) -> None:
        self.edges: dict[tuple[int, int], Edge] = {}
        self._places: list[tuple[GradFn, int]] = []
        own_edge = TENSORS.edge(own)
        root = TENSORS.edge(result)
        stack = [] if root is None else [root[0]]
        seen: set[int] = set()
        while stack:
            fn = stack.pop()
            if id(fn) in seen or fn is own_edge[0]:
                continue
            seen.add(id(fn))
            if fn.sequence < mark or isinstance(fn, AccumulateGrad):
                self.edges[(id(fn), root[1])] = root  # the result is a captured tensor itself
                continue
            self._visit(fn, mark, own_edge[0], stack)

    def _visit(self, fn: GradFn, mark: int, own: GradFn, stack: list[GradFn]) -> None:
        for position, edge in enumerate(fn.edges):
            if edge is None or edge[0] is None or edge[0] is own:
                continue
            if edge[0].sequence < mark or isinstance(edge[0], AccumulateGrad):
                self.edges[(id(edge[0]), edge[1])] = edge
                self._places.append((fn, position))
            else:
                stack.append(edge[0])

    def cut(self) -> dict[tuple[int, int], torch.Tensor]:
        """Let the fresh tape end in new leaves, so that a backward stays inside it."""
        leaves: dict[tuple[int, int], torch.Tensor] = {}
        for fn, position in self._places:
            old, number = fn.edges[position]
            key = (id(old), number)
            if key not in leaves:
                shape, dtype = old.likes[number]
                leaves[key] = torch.zeros(shape, dtype=dtype, requires_grad=True)
            edges = list(fn.edges)
            edges[position] = TENSORS.edge(leaves[key])
            fn.edges = tuple(edges)
        return leaves


def tensor_of_edge(edge: Edge) -> torch.Tensor:
    """A tensor whose gradient goes where this edge goes; its value is never read."""
    fn, number = edge
    if isinstance(fn, AccumulateGrad):
        return fn.variable
    shape, dtype = fn.likes[number]
    return TENSORS.attach(torch.zeros(shape, dtype=dtype), fn, number)
