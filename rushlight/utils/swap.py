"""`swap_tensors`: two tensor objects exchange all that they are."""

from __future__ import annotations

from typing import Any

import rushlight as torch


def swap_tensors(t1: Any, t2: Any) -> None:
    """Everybody who holds `t1` sees what `t2` was, and the other way round.

    Memory, view, class, attributes and gradients go over; neither may be in a recorded graph.

    >>> import rushlight as torch
    >>> a, b = torch.zeros(1), torch.ones(2)
    >>> torch.utils.swap_tensors(a, b)
    >>> a
    tensor([1., 1.])
    """
    for tensor in (t1, t2):
        if tensor.grad_fn is not None:
            raise RuntimeError("Cannot swap a tensor that has a history; detach it first")
    first, second = ({name: getattr(t, name) for name in torch.Tensor.__slots__ if name[:2] != "__"}
                     for t in (t1, t2))  # fmt: skip
    for tensor, values in ((t1, second), (t2, first)):
        for name, value in values.items():
            setattr(tensor, name, value)
        if tensor._grad is not None:
            tensor._grad.accumulator = None
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
