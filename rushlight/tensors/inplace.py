"""In-place changes: a new value for the storage, seen by every view, with PyTorch's history.

An in-place op is its functional form followed by `assign`. Through a view, the base gets the value
that the inverse view steps give; when a gradient is needed these steps are recorded too, the base
adopts their history, and every view starts its own history again from the base's.
"""

from __future__ import annotations

from typing import Any

from rushlight import ops
from rushlight.autograd.graph import zeros
from rushlight.autograd.mode import STATE
from rushlight.autograd.node import GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.autograd.record_fn import RecordFn
from rushlight.base.devices import DEVICES
from rushlight.engine.realize import flush
from rushlight.engine.undo import RISK, note_change
from rushlight.ir.opdef import OpDef
from rushlight.tensors.apply import apply
from rushlight.tensors.before import Before
from rushlight.tensors.grad_side import ONE_OF_SEVERAL
from rushlight.tensors.numbers import CATEGORY
from rushlight.tensors.placing import result_for
from rushlight.tensors.size import overlaps
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Grad, Tensor, edge_of
from rushlight.tensors.view import OVERLAP, write_through

MAX_WRITES = 16  # that may wait; what models write in one step is less

NO_GRAD_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
LEAF = "{} Variable that requires grad is being used in an in-place operation."


class ZeroFn(GradFn):
    """An overwritten value: nothing flows to what was there before."""

    __slots__ = ()

    def apply(self, grads: list[Any], create_graph: bool) -> Any:
        return [None if e is None else TENSORS.make(zeros(*self.likes[0])) for e in self.edges]


class CopyFn(GradFn):
    """A value copied over another: the gradient flows to it, zeros to what was there before."""

    __slots__ = ()

    def apply(self, grads: list[Any], create_graph: bool) -> Any:
        return [grads[0], TENSORS.make(zeros(*self.likes[0]))]


def check_inplace(tensor: Tensor) -> None:
    """May this tensor be changed now? The errors are PyTorch's."""
    storage = tensor._storage
    if storage.inference and not STATE.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make "
            "a clone to get a normal tensor before doing inplace update.See "
            "https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if STATE.grad:
        _check_history(tensor)
    view = tensor._view
    if view is not None and overlaps(tensor._shape, view.strides):
        raise RuntimeError(OVERLAP)


def _check_history(tensor: Tensor) -> None:
    """May it be changed while gradients are recorded?"""
    view, grad = tensor._view, tensor._grad
    base = None if view is None else view.base
    is_leaf = grad is not None and grad.requires and grad.fn is None
    if view is None or base is None:
        if is_leaf:
            raise RuntimeError(LEAF.format("a leaf"))
        return
    if view.one_of and base.requires_grad:
        raise _one_of_several(view)
    if is_leaf:
        raise RuntimeError(LEAF.format("a view of a leaf"))
    if not view.tracked and base.requires_grad:
        raise RuntimeError(NO_GRAD_VIEW)
    if base.requires_grad and base.is_leaf:
        raise RuntimeError(LEAF.format("a view of a leaf"))


def _one_of_several(view: Any) -> RuntimeError:
    return RuntimeError(f"{view.one_of} is a view and is being modified inplace. {ONE_OF_SEVERAL}")


def inplace(tensor: Tensor, record: OpDef, args: tuple, kwargs: dict | None = None) -> Tensor:
    """tensor.record_(*args)."""
    check_inplace(tensor)
    result = apply(record, (tensor, *args), kwargs)
    return store(tensor, result)


def store(tensor: Tensor, result: Tensor) -> Tensor:
    """Make `result` (from ops on the tensor) the tensor's value: dtype and shape checked."""
    if result._shape != tensor._shape:
        raise RuntimeError(
            f"output with shape {list(tensor._shape)} doesn't match the broadcast shape "
            f"{list(result._shape)}"
        )
    if result._dtype is not tensor._dtype:
        check_can_cast(result._dtype, tensor._dtype)
        result = apply(ops.cast, (result, tensor._dtype))
    return assign(tensor, result)


def overwrite(tensor: Tensor, result: Tensor) -> Tensor:
    """As `assign`, of a value that was not made from the tensor's."""
    view = tensor._view
    if view is not None and view.base is not None and not view.own:
        overwrite(view.base, result)  # `x[...]` is all of x
        return tensor
    history = tensor._grad
    before = edge_of(tensor) if view is None and history and history.fn else None
    assign(tensor, result)
    if before is not None and STATE.grad and result.requires_grad:
        like = (tensor._shape, tensor._dtype)
        edges = ((history.fn, history.number), before)  # type: ignore[union-attr]
        history.fn, history.number = CopyFn(edges, (like,), "CopyBackwards"), 0  # type: ignore
    return tensor


def check_can_cast(have: Any, want: Any) -> None:
    if CATEGORY[have.kind] > CATEGORY[want.kind]:
        raise RuntimeError(
            f"result type {have.scalar_name} can't be cast to the desired output type "
            f"{want.scalar_name}"
        )


def assign(tensor: Tensor, result: Tensor) -> Tensor:
    """Put `result` (same shape and dtype) into the tensor's storage, with its history."""
    storage = tensor._storage
    if not tensor.numel():
        tensor._counter.version += 1
        return tensor
    if DEVICES.used:
        result = result_for(tensor, result)
    if RISK.waits and storage.foreign is None:
        before = Before(tensor)
        _assign(tensor, result)
        note_change(storage, before.node, before)
        return tensor
    return _assign(tensor, result)


def _assign(tensor: Tensor, result: Tensor) -> Tensor:
    storage, view, counter = tensor._storage, tensor._view, tensor._counter
    if view is None:
        storage.replace(result._value())
        _adopt(tensor, result, counter)
        counter.version += 1
        return tensor
    base = view.base
    record = STATE.grad and base is not None and (result.requires_grad or base.requires_grad)
    if not record:
        _write_part(storage, view.steps, result._value())
        counter.version += 1
        return tensor
    if view.one_of:
        raise _one_of_several(view)
    seen = () if base._view is None else base._view.steps
    if (*seen, *view.own) != view.steps:
        raise NotImplementedError(
            "in-place change of a view under autograd, after its base was changed in place by t_, "
            "transpose_, squeeze_, unsqueeze_ or as_strided_; take the view afterwards"
        )
    if tensor._grad is None:
        tensor._grad = Grad(requires=False)
        tensor._grad.base_fn = None if base._grad is None else base._grad.fn
    now = write_through(base, view.own, result)
    if now._grad is not None and now._grad.fn is not None:
        now._grad.fn.label = "torch::autograd::CopySlices"
    if base._view is None:
        storage.replace(now._value())
    else:
        storage.replace(write_through(storage.node, base._view.steps, now._value()))
    _own_saved(result, counter)
    _adopt(base, now, counter)
    counter.version += 1
    return tensor


def _write_part(storage: Storage, steps: Any, value: Any) -> None:
    """A loop that fills a tensor part by part would become one kernel, and often one copy of the
    tensor, for each part. So from the MAX_WRITES-th on each is computed before the next, in place.
    """
    if storage.writes >= MAX_WRITES:
        flush()
    storage.writes = 1 if storage.node.leaf and storage.writes < MAX_WRITES else storage.writes + 1
    storage.replace(write_through(storage.node, steps, value))


def _adopt(tensor: Tensor, result: Tensor, counter: Any) -> None:
    """The history of the value becomes the tensor's."""
    if not STATE.grad:
        return
    new = result._grad
    if new is not None and new.fn is not None:
        _own_saved(result, counter)
        old = tensor._grad
        if old is None:
            tensor._grad = Grad(new.fn, new.number)
        else:
            is_retained = old.retained and old.fn is not None
            if is_retained:  # the gradient of the value that the tensor has now
                old.fn.retains.pop(old.number, None)  # type: ignore[union-attr]
            old.fn, old.number, old.requires, old.retained = new.fn, new.number, True, False
            if is_retained:
                tensor.retain_grad()
    elif tensor._grad is not None and tensor._grad.fn is not None:
        like = (tensor._shape, tensor._dtype)
        tensor._grad.fn = ZeroFn((edge_of(tensor),), (like,), "ZeroBackward0")
        tensor._grad.number = 0


def _own_saved(result: Tensor, counter: Any) -> None:
    """Saved values of the op that changes a tensor: its old value is kept as it was; its new value
    counts from the version after the change."""
    fn = None if result._grad is None else result._grad.fn
    if not isinstance(fn, RecordFn):
        return
    for saved in fn.saved.values():
        if saved.counter is counter:
            saved.counter = None
    if fn.saved_out is not None and fn.saved_out.counter is result._counter:
        fn.saved_out.counter, fn.saved_out.version = counter, counter.version + 1
