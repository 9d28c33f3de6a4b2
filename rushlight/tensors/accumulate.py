"""Gradients of leaves: `.grad` is made, or a further gradient is added to it."""

from __future__ import annotations

from typing import Any

from rushlight import ops
from rushlight.autograd.engine import sum_of
from rushlight.autograd.mode import STATE
from rushlight.base.devices import DEVICES
from rushlight.engine.capture import open_session
from rushlight.engine.undo import RISK, note_change
from rushlight.tensors.apply import apply
from rushlight.tensors.before import GradBefore
from rushlight.tensors.inplace import store
from rushlight.tensors.placing import result_for
from rushlight.tensors.tensor import Tensor, new_tensor


def accumulate(variable: Tensor, grad: Tensor, is_new: bool = False) -> None:
    """variable.grad += grad. In place, so that holders of `.grad` see it; a new sum (with its
    history) under create_graph. `is_new`: nobody else has this tensor. Nothing for a leaf that was
    frozen after its use."""
    side = variable._grad
    assert side is not None
    if not side.requires:
        return
    if DEVICES.used:
        grad = result_for(variable, grad)
    session = open_session()
    if session is not None:
        session.note_grad(variable, side.grad)
        if grad.is_sparse:
            session.refuse("a gradient is sparse")
    before = side.grad
    if before is None:
        # A tensor of its own on the same node: the value is shared until one side is written.
        own = STATE.grad or is_new or grad.is_sparse
        kept = grad if own else new_tensor(grad._value())
        side.grad = kept
    elif STATE.grad or before.is_sparse or grad.is_sparse:
        side.grad = sum_of(before, grad)
    else:
        total = apply(ops.add, (side.grad, grad))
        store(side.grad, total)
    if RISK.waits and side.grad is not before:
        note_change(side.grad._storage, None, GradBefore(variable, before))
    for hook in list((side.post_hooks or {}).values()):
        hook(variable)


def is_plain(a: Any, b: Any) -> bool:
    """May the sum of two gradients be made as a node?"""
    return a.__class__ is b.__class__ is Tensor and a._dtype is b._dtype and a._shape == b._shape
