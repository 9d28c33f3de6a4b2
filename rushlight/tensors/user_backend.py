"""`compile(backend=callable)`: the user's own backend, in PyTorch's form backend(gm, inputs).

In: a function and a callable. Each new graph that a call of the function records is given to the
callable as a `GraphModule` with example inputs; what it returns is called for this graph from then
on. As everywhere, Python numbers are inputs, and sizes become inputs at the second sight, so a new
batch size or learning rate is no new graph.

Out: the function's results, with the values that the user's callable gave. Gradients come from the
recorded calls, and are compiled as usual. What the call changes in place is computed as usual, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.base.pytree import flatten
from rushlight.engine.capture import open_session
from rushlight.engine.index_errors import site_text
from rushlight.engine.programs import ProgramCache
from rushlight.engine.realize import LOCK, flush
from rushlight.engine.recorded_graph import RecordedGraph
from rushlight.engine.signature import Recording, record
from rushlight.engine.template import Template
from rushlight.ir.node import Node
from rushlight.tensors.tensor import Tensor, new_tensor


class GraphModule:
    """A recorded graph that can be called and read.

    Its inputs are the sizes that vary (whole numbers, by the names in `sizes`), then the tensors,
    then the Python numbers; its outputs are a tuple of tensors.
    """

    def __init__(self, graph: RecordedGraph) -> None:
        self._graph = graph
        self.sizes = graph.sizes

    @property
    def code(self) -> str:
        """The graph as text (rushlight/ir/text.py): a line for each node."""
        return self._graph.text()

    graph = code

    def print_readable(self, print_output: bool = True) -> str:
        """The text; it is printed, too."""
        if print_output:
            print(self.code)
        return self.code

    def __repr__(self) -> str:
        return f"GraphModule(\n{self.code})"

    def forward(self, *inputs: Any) -> tuple[Tensor, ...]:
        """The graph's outputs for these inputs, as lazy tensors."""
        sizes, tensors = len(self.sizes), self._graph.inputs
        if len(inputs) != sizes + tensors + self._graph.numbers:
            raise TypeError(
                f"the graph takes {sizes} sizes, {tensors} tensors and {self._graph.numbers} "
                f"numbers; {len(inputs)} inputs are given"
            )
        sources = [tensor._value() for tensor in inputs[sizes : sizes + tensors]]
        roots = self._graph.build(inputs[:sizes], sources, inputs[sizes + tensors :])
        return tuple(map(new_tensor, roots))

    __call__ = forward


class _Entry:
    """What the user's backend made of a graph, for the sizes that its template fits."""

    def __init__(self, template: Template, call: Callable[..., Any]) -> None:
        self.template, self.call = template, call


class _Graphs(ProgramCache):
    """Found by structure and sizes, as compiled programs are."""

    def __init__(self, backend: Callable[..., Any]) -> None:
        super().__init__()
        self._backend = backend

    def make(
        self, recording: Recording, template: Template, donated: frozenset[int], backend_name: str,
        site: Callable[[Node], str],
    ) -> Any:  # fmt: skip
        module = GraphModule(RecordedGraph(recording, template, site))
        values = template.match(np.array(recording.ints, np.int64))
        made = self._backend(module, _inputs_of(recording, values))
        if not callable(made):
            raise TypeError(
                "compile: the backend must return a callable that takes the graph's inputs, got "
                f"{type(made).__name__}"
            )
        self.compiled += 1
        return _Entry(template, made)


def _inputs_of(recording: Recording, values: Any) -> list[Any]:
    tensors = [new_tensor(node) for node in recording.inputs]
    return [*values.tolist(), *tensors, *recording.numbers]


class BackendFunction:
    """What `compile(backend=callable)` gives for a function."""

    def __init__(self, fn: Callable[..., Any], backend: Callable[..., Any]) -> None:
        self._fn = fn
        self._graphs = _Graphs(backend)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if open_session() is not None:
            return self._fn(*args, **kwargs)
        flush()  # what is pending before belongs to other code
        result = self._fn(*args, **kwargs)
        outputs = [leaf for leaf in flatten(result)[0] if isinstance(leaf, Tensor)]
        pending = {t._value(): None for t in outputs if not t._value().leaf}
        if pending:
            with LOCK:
                self._run(list(pending))
        return result

    def _run(self, roots: list[Node]) -> None:
        """Give the pending nodes the values that the user's callable computes."""
        recording = record(roots)
        entry, values = self._graphs.find(recording, frozenset(), site_text)
        inputs = _inputs_of(recording, values)
        before = [(root, root.op, root.src, root.attrs, root.leaf) for root in roots]
        for root in roots:
            # Not pending while the callable runs: no flush shall compute it by the way.
            root.become_leaf(None)
        try:
            found = entry.call(*inputs)  # type: ignore[attr-defined]
            buffers = _buffers(roots, (found,) if isinstance(found, Tensor) else found)
        except BaseException:
            for root, op, src, attrs, leaf in before:
                root.op, root.src, root.attrs, root.leaf = op, src, attrs, leaf
            raise
        for root, buffer in zip(roots, buffers, strict=True):
            root.become_leaf(buffer)


def _buffers(roots: Sequence[Node], found: Sequence[Any]) -> list[Any]:
    """The memory of the results, which must be tensors like the graph's outputs."""
    if len(found) != len(roots):
        raise TypeError(
            f"compile: the backend's callable must return {len(roots)} tensors, got {len(found)}"
        )
    buffers = []
    for root, value in zip(roots, found, strict=True):
        shown = type(value).__name__
        if isinstance(value, Tensor):
            shown = f"a tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
        wanted = f"a tensor of shape {root.shape} and dtype {root.dtype}"
        if shown != wanted:
            raise TypeError(f"compile: the backend's callable must return {wanted}, got {shown}")
        node = value._value()
        flush((node,))
        buffers.append(node.buffer)
    return buffers
