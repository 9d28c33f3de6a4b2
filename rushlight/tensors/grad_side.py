"""The side of a tensor that autograd sees: does it require a gradient, where does the gradient go.

`GradSide` is the part of the class Tensor with these questions; `Grad` is the record that a tensor
has when the answer is not the plain no.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.autograd.node import GradFn, RemovableHandle
from rushlight.autograd.record_fn import RecordFn, form_of
from rushlight.base.dtypes import DType
from rushlight.engine.capture import open_session
from rushlight.tensors.storage import Storage
from rushlight.tensors.type_names import cpp_name
from rushlight.tensors.view import View


class Grad:
    """The autograd side of a tensor that has one."""

    __slots__ = (
        "requires", "fn", "number", "grad", "accumulator", "hooks", "post_hooks", "retained",
        "base_fn",
    )  # fmt: skip

    def __init__(self, fn: GradFn | None = None, number: int = 0, requires: bool = True) -> None:
        self.requires, self.fn, self.number = requires, fn, number
        self.grad: Any = None
        self.accumulator: Any = None  # weak: the tape keeps it, not the leaf
        self.hooks: dict | None = None
        self.post_hooks: dict | None = None
        self.retained = False
        self.base_fn: Any = None  # of a view: the base's function this history was made from


class GradSide:
    """What Tensor inherits: requires_grad, grad, grad_fn, hooks. The fields are Tensor's."""

    __slots__ = ()

    _storage: Storage
    _shape: tuple[int, ...]
    _dtype: DType
    _view: View | None
    _counter: Any
    _grad: Grad | None

    @property
    def requires_grad(self) -> bool:
        if self._view is not None:
            follow_base(self)
        return self._grad is not None and self._grad.requires

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not self._dtype.is_inexact:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients"
            )
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        if requires_grad and not self._dtype.is_inexact:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        meta = self._grad
        if meta is not None and meta.fn is not None and not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if requires_grad and self._storage.inference and not STATE.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed."
            )
        if meta is None:
            if requires_grad:
                self._grad = Grad()
        else:
            meta.requires = bool(requires_grad)
        return self

    @property
    def grad_fn(self) -> GradFn | None:
        if self._view is not None:
            follow_base(self)
        return None if self._grad is None else self._grad.fn

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        return 0 if self._grad is None else self._grad.number

    @property
    def grad(self) -> Any:
        meta = self._grad
        grad = None if meta is None else meta.grad
        session = open_session()
        if session is not None:
            session.note_grad(self, grad)
        return grad

    @grad.setter
    def grad(self, value: Any) -> None:
        session = open_session()
        if session is not None:
            session.note_grad(self, None if self._grad is None else self._grad.grad)
        if value is not None:
            _check_assigned(self, value)
        elif self._grad is None:
            return
        if self._grad is None:
            self._grad = Grad(requires=False)
        self._grad.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _version(self) -> int:
        if self._storage.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._counter.version

    @property
    def _base(self) -> Any:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None and self._view.base is not None

    def is_inference(self) -> bool:
        return self._storage.inference

    @property
    def retains_grad(self) -> bool:
        return self._grad is not None and self._grad.retained

    def retain_grad(self) -> None:
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        meta = self._grad
        if meta.fn is None or meta.retained:  # type: ignore[union-attr]
            return
        meta.retained = True  # type: ignore[union-attr]
        if meta.fn.retains is None:  # type: ignore[union-attr]
            meta.fn.retains = {}  # type: ignore[union-attr]
        meta.fn.retains[meta.number] = weakref.ref(self)  # type: ignore[union-attr]

    def _retain(self, grad: Any) -> None:
        meta = self._grad
        meta.grad = grad if meta.grad is None else meta.grad + grad  # type: ignore[union-attr]

    def register_hook(self, hook: Callable) -> RemovableHandle:
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        meta = self._grad
        if meta.fn is None:  # type: ignore[union-attr]
            if meta.hooks is None:  # type: ignore[union-attr]
                meta.hooks = {}  # type: ignore[union-attr]
            return RemovableHandle(meta.hooks, hook)  # type: ignore[union-attr]
        fn = meta.fn  # type: ignore[union-attr]
        if fn.hooks is None:
            fn.hooks = {}
        return RemovableHandle(fn.hooks.setdefault(meta.number, {}), hook)  # type: ignore[union-attr]

    def register_post_accumulate_grad_hook(self, hook: Callable) -> RemovableHandle:
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        meta = self._grad
        if meta.post_hooks is None:  # type: ignore[union-attr]
            meta.post_hooks = {}  # type: ignore[union-attr]
        return RemovableHandle(meta.post_hooks, hook)  # type: ignore[union-attr]

    def _leaf_hooks(self) -> dict | None:
        return None if self._grad is None else self._grad.hooks

    def _output_of(self) -> Any:
        return None if self._grad is None else weakref.ref(self)

    def _check_data(self, value: Any) -> None:
        """May `data` become this value?"""
        if not isinstance(value, GradSide):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if not value._dtype.is_inexact and self._grad is not None and self._grad.requires:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex "
                "dtype"
            )

    def detach_(self) -> Any:
        if self._is_view():
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set "
                "as True, gradients are views of DDP buckets, and hence detach_() cannot be called "
                "on these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                "function in torch/optim/optimizer.py as a solution."
            )
        meta = self._grad
        if meta is not None and meta.fn is None:
            meta.requires = False  # a tape may still know the leaf
        elif meta is not None:
            self._grad = None
            if meta.grad is not None:
                self.grad = meta.grad
        return self


def view_history(edge: Any, tensor: Any, steps: tuple, label: str) -> tuple:
    """The gradient function of some view steps."""
    like = (tensor._shape, tensor._dtype)
    for record, attrs, shape, dtype in steps:
        after = (shape, dtype or like[1])
        fn = RecordFn(form_of(record, attrs, (like,), (like,), after), (edge,), label)
        edge, like = (fn, 0), after
    if not steps:
        return edge
    return edge


ONE_OF_SEVERAL = (
    "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. You should replace the inplace operation by an "
    "out-of-place one."
)


def follow_base(tensor: Any) -> None:
    """After an in-place change of the base, a view's history starts again from the base's."""
    view = tensor._view
    base = view.base  # type: ignore[union-attr]
    if base is None or base._grad is None:
        return
    fn = base._grad.fn
    if fn is None:
        return
    if tensor._grad is None:
        if not tensor._dtype.is_inexact:
            return
        tensor._grad = Grad(requires=False)
    elif fn is tensor._grad.base_fn:
        return
    if view.one_of:  # type: ignore[union-attr]
        raise RuntimeError(
            f"{view.one_of} is a view and its base or another view of its base has been modified "  # type: ignore[union-attr]
            f"inplace. {ONE_OF_SEVERAL}"
        )
    before = STATE.grad
    history = view_history((fn, base._grad.number), base, view.own, view.label)  # type: ignore[union-attr]
    STATE.grad = before
    tensor._grad.fn, tensor._grad.number = history
    tensor._grad.requires = True
    tensor._grad.base_fn = fn


def is_leaf_with_grad(tensor: Any) -> bool:
    """Such a tensor is the base of its views, whatever memory it is a view of itself."""
    meta = tensor._grad
    return meta is not None and meta.requires and meta.fn is None


def _check_assigned(tensor: Any, grad: Any) -> None:
    if not isinstance(grad, GradSide):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(grad).__name__}"
        )
    if grad is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if grad._dtype is not tensor._dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{cpp_name(grad._dtype)}' to a tensor "
            f"with grad_dtype '{tensor._dtype.scalar_name}'. The gradient must match the tensor's "
            "grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
            "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with "
            "caution. Diverging the dtypes of a tensor and its gradient may break downstream "
            "systems that assume they match."
        )
    if grad._shape != tensor._shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(grad._shape)}' to a tensor of size "
            f"'{list(tensor._shape)}'. Please ensure that the gradient and the tensor are the same "
            "size"
        )
