"""Gradient functions: the tape. One object per recorded call.

A function knows its edges (where the gradient of each input goes) and in which order it was made;
what it saved is in saved.py. Reading a value never changes the tape: the functions stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.anomaly import forward_call
from rushlight.autograd.mode import STATE
from rushlight.autograd.protocol import TENSORS

SEQUENCE = itertools.count()
SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class GradFn:
    """Base of all. `likes`: (shape, dtype) of each output; `edges`: one per input."""

    __slots__ = (
        "edges", "sequence", "likes", "label", "hooks", "retains", "pre_hooks", "post_hooks",
        "metadata_", "spent", "__weakref__",
    )  # fmt: skip

    def __init__(self, edges: Sequence[Any], likes: Sequence[Any], label: str = "") -> None:
        self.edges, self.likes, self.label = tuple(edges), tuple(likes), label
        self.sequence = next(SEQUENCE)
        self.hooks: dict[int, dict] | None = None  # output number -> tensor hooks
        self.retains: dict[int, Any] | None = None  # output number -> weak tensor
        self.pre_hooks: dict | None = None
        self.post_hooks: dict | None = None
        self.metadata_: dict | None = None
        self.spent = False  # a backward without retain_graph went through it
        if STATE.anomaly:
            self.metadata_ = {"traceback_": forward_call()}

    def name(self) -> str:
        return self.label or type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple:
        return tuple(edge if edge is not None else (None, 0) for edge in self.edges)

    @property
    def metadata(self) -> dict:
        if self.metadata_ is None:
            self.metadata_ = {}
        return self.metadata_

    def _sequence_nr(self) -> int:
        return self.sequence

    def register_hook(self, hook: Callable) -> RemovableHandle:
        if self.post_hooks is None:
            self.post_hooks = {}
        return RemovableHandle(self.post_hooks, hook)

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        if self.pre_hooks is None:
            self.pre_hooks = {}
        return RemovableHandle(self.pre_hooks, hook)

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        """Gradients (Tensors or None) of the inputs from those of the outputs."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of what was saved (after a backward without retain_graph)."""


class SpentFn(GradFn):
    """Of a value whose backward has run in a replayed call: there is nothing to go through."""

    __slots__ = ()

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        raise RuntimeError(SECOND_TIME)


class RemovableHandle:
    """`remove()` takes a hook away again."""

    _ids = itertools.count()

    def __init__(self, hooks: dict, hook: Callable) -> None:
        self.id = next(RemovableHandle._ids)
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class AccumulateGrad(GradFn):
    """The end of the tape at a leaf: adds to its `.grad`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        super().__init__(
            (), ((variable._shape, variable.dtype),), "torch::autograd::AccumulateGrad"
        )
        self.variable = variable
        self.sequence = 1 << 62  # before everything else that is ready

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        if grads[0] is not None:
            TENSORS.accumulate(self.variable, grads[0])
        return ()


class ErrorFn(GradFn):
    """An output whose gradient must not be asked for."""

    __slots__ = ("message",)

    def __init__(
        self, edges: Sequence[Any], likes: Sequence[Any], label: str, message: str
    ) -> None:
        super().__init__(edges, likes, label)
        self.message = message

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        raise RuntimeError(self.message)
