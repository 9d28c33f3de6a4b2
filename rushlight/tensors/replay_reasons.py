"""Why a captured call cannot be replayed now: the guard that failed, in words.

In: a replay and the tensors of a call for which `holds` or `run` said no. Out: a text. What is
looked at, and in which order, is that of `Replay.holds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.tensors.replay import TENSOR_PARTS, Replay, TensorGuards
from rushlight.tensors.replay_graph import GraphReplay
from rushlight.tensors.tensor import Tensor

_PARTS = ("memory", "shape", "dtype", "view of another tensor", "gradient record",
          "counter of versions")  # fmt: skip
_GRADS = ("requires_grad", "function that made it", "retain_grad", "hooks", "hooks after gradients")


def why_not(entry: Replay | GraphReplay, tensors: Sequence[Tensor]) -> str:
    """The first guard of `entry` that does not hold for these arguments."""
    if isinstance(entry, GraphReplay):
        return entry.snapshot.reason() or _tensors(entry.tensors) or "another mode"
    return (
        _arguments(entry, tensors)
        or _gradients(entry, tensors)
        or _rates(entry)
        or entry.snapshot.reason()
        or _tensors(entry.tensors)
        or "memory that it would write over is also seen by somebody else"
    )


def _arguments(entry: Replay, tensors: Sequence[Tensor]) -> str:
    for number, storage in entry.fixed_arguments:
        if tensors[number]._storage is not storage:
            return f"argument {number} is another tensor than one that the code also reads itself"
    return ""


def _gradients(entry: Replay, tensors: Sequence[Tensor]) -> str:
    for owner, had, storage in entry.had_grad:
        tensor = tensors[owner] if owner.__class__ is int else owner
        grad = None if tensor._grad is None else tensor._grad.grad
        if (grad is not None) is not had:
            now = "has no gradient any more" if had else "has a gradient now"
            return f"{_name(tensor)} {now}"
        if storage is not None and grad._storage is not storage:  # type: ignore[union-attr]
            return f"the gradient of {_name(tensor)} is another tensor"
    return ""


def _rates(entry: Replay) -> str:
    for (group, key), last in zip(entry.rates, entry.last_rates, strict=True):
        if key not in group:
            return f"option {key!r} of an optimizer is gone"
        if group[key] is not last and type(group[key]) is not float:
            return f"option {key!r} of an optimizer: {last!r} -> {group[key]!r}"
    for read, answer in entry.predicates:
        if read() != answer:
            return f"what was asked of an optimizer's option: {answer!r} -> {read()!r}"
    return ""


def _tensors(guards: TensorGuards) -> str:
    for tensor, parts in zip(guards.tensors, guards.parts, strict=True):
        if change := _change(_PARTS, parts, TENSOR_PARTS(tensor)):
            return f"{_name(tensor)}: {change}"
    with_record = [t for t in guards.tensors if t._grad is not None]
    for tensor, meta, before in zip(with_record, guards.metas, guards.grads, strict=False):
        now = (meta.requires, meta.fn, meta.retained, meta.hooks, meta.post_hooks)
        if change := _change(_GRADS, before, now):
            return f"{_name(tensor)}: {change}"
    return ""


def _change(names: Sequence[str], before: Sequence[Any], now: Sequence[Any]) -> str:
    for name, old, new in zip(names, before, now, strict=True):
        if old != new:
            shown = name in ("shape", "dtype", "requires_grad", "retain_grad")
            return f"{name} {old} -> {new}" if shown else f"another {name}"
    return ""


def _name(tensor: Tensor) -> str:
    return f"a tensor {tuple(tensor._shape)} {tensor._dtype}"
