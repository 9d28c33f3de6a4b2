"""Put a recorded call on the tape, where an operand needs a gradient.

In: a call, its result and what it read. Out: the function of its gradient, which holds the values
that the gradient reads, and no others.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.graph import values_read
from rushlight.autograd.mode import STATE
from rushlight.autograd.record_fn import Form, RecordFn, form_of
from rushlight.autograd.saved import Saved
from rushlight.ir.node import Node
from rushlight.tensors.call_plan import CallPlan, Derived
from rushlight.tensors.numbers import INEXACT
from rushlight.tensors.tensor import Grad, Tensor, edge_of

INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`."
)


def put_on_tape(
    plan: CallPlan, found: Derived, out: Tensor, operands: Sequence[Any], owners: Sequence[str],
    src: list[Node], likes: tuple, label: str,
) -> None:  # fmt: skip
    """Put the call on the tape when an operand needs a gradient."""
    edges = [
        edge_of(arg) if isinstance(arg, Tensor) and arg._dtype.kind in INEXACT else None
        for arg in operands
    ]
    if not any(edges):
        return
    form = found.form
    if form is None:
        meta = found.meta
        form = form_of(plan.record, meta.attrs, likes, likes, (meta.shape, meta.dtype))
        found.form = form
    needs = tuple([edge is not None for edge in edges])
    saves, saves_out = found.saves.get(needs) or _plan_saves(plan, found, owners, likes, needs)
    for arg, like in zip(operands, likes, strict=False):
        if isinstance(arg, Tensor) and arg._dtype is not like[1]:
            form = _with_casts(form, operands)
            break
    fn = RecordFn(form, edges, label or plan.label)
    for i in saves:
        arg = operands[i] if i < len(operands) else None
        if isinstance(arg, Tensor):
            if arg._storage.inference and not STATE.inference:
                raise RuntimeError(INFERENCE_SAVED)
            fn.saved[i] = Saved(src[i], arg._counter, arg._output_of())
        else:
            fn.saved[i] = Saved(src[i], None, None)
    out._grad = Grad(fn)
    if saves_out:
        fn.saved_out = Saved(out._storage.node, out._counter, weakref.ref(fn))


def _plan_saves(
    plan: CallPlan, found: Derived, owners: Sequence[str], likes: tuple, needs: tuple[bool, ...]
) -> tuple[tuple[int, ...], bool]:
    """What the gradient of such a call reads, for operands that need one."""
    meta = found.meta
    reads, saves_out = plan.reads, plan.reads_out
    if plan.record.saves is not None:
        reads = plan.record.saves(dict(zip(plan.record.attr_index, meta.attrs, strict=False)))
        saves_out = "out" in reads
    saves = tuple([i for i, name in enumerate(owners) if name in reads])
    if saves or saves_out:  # by name; some of it may serve an operand that needs no gradient
        wanted = (*needs, *[False] * (len(likes) - len(needs)))
        like = (meta.shape, meta.dtype)
        used, out_used = values_read(plan.record, meta.attrs, likes, like, wanted)
        saves = tuple([i for i in saves if i in used or i >= len(needs)])
        saves_out = saves_out and out_used
    found.saves[needs] = saves, saves_out
    return saves, saves_out


def _with_casts(form: Form, operands: Sequence[Any]) -> Form:
    """The same for operands of other dtypes: their gradients are cast back."""
    targets = tuple(
        [
            (arg._shape, arg._dtype) if isinstance(arg, Tensor) else like
            for arg, like in zip(operands, form.source_likes, strict=False)
        ]
    )
    return form_of(form.record, form.attrs, form.source_likes, targets, form.likes[0])
