"""torch.autograd.Function: an op whose backward a user writes."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import names as _names
from rushlight.autograd.graph import zeros
from rushlight.autograd.mode import STATE, no_grad, set_grad_enabled
from rushlight.autograd.node import SECOND_TIME, ErrorFn, GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.autograd.saved import Saved

__getattr__ = _names.getattr_of(__name__)


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    def __init__(self) -> None:
        self._to_save: tuple = ()
        self._dirty: tuple = ()
        self._non_differentiable: tuple = ()
        self._materialize = True
        # Weak: the tape entry holds the context, and a cycle would keep tensors after backward.
        self._fn_ref: Any = None
        self.needs_input_grad: tuple[bool, ...] = ()

    @property
    def _fn(self) -> FunctionFn | None:
        return self._fn_ref() if self._fn_ref is not None else None

    def save_for_backward(self, *tensors: Any) -> None:
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accepted: forward-mode derivatives are taken from the ops themselves."""

    def mark_dirty(self, *tensors: Any) -> None:
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple:
        if self._fn is None:
            return self._to_save
        return self._fn.saved_tensors()

    saved_variables = saved_tensors

    def name(self) -> str:
        return self._fn.name() if self._fn is not None else type(self).__name__


class FunctionFn(GradFn):
    """The tape entry of one call of a user's Function."""

    __slots__ = ("ctx", "owner", "saved")

    def __init__(
        self, owner: type, ctx: FunctionCtx, edges: Sequence[Any], likes: Sequence[Any]
    ) -> None:
        super().__init__(edges, likes, f"{owner.__name__}Backward")
        self.ctx, self.owner = ctx, owner
        self.saved: list[Any] | None = None

    def save(self, tensors: Sequence[Any], outputs: Sequence[Any]) -> None:
        numbers = {id(t): i for i, t in enumerate(outputs)}
        self.saved = []
        for tensor in tensors:
            if tensor is None:
                self.saved.append(None)
                continue
            number = numbers.get(id(tensor))
            edge = (None, number) if number is not None else (TENSORS.edge(tensor), None)
            saved = Saved(TENSORS.value(tensor), tensor._counter, tensor._output_of())
            # A leaf comes back as itself; another tensor as a new one with the same history.
            leaf = tensor if number is None and tensor.is_leaf else None
            self.saved.append((saved, edge, leaf))

    def saved_tensors(self) -> tuple:
        if self.saved is None:
            if self.ctx._to_save:
                raise RuntimeError(SECOND_TIME)
            return ()
        return tuple(None if item is None else self._unpack(*item) for item in self.saved)

    def _unpack(self, saved: Saved, edge: tuple, leaf: Any) -> Any:
        node = saved.node()
        if leaf is not None:
            return leaf
        tensor = TENSORS.make(node)
        origin, number = edge
        if number is not None:
            return TENSORS.attach(tensor, self, number)
        return tensor if origin is None else TENSORS.attach(tensor, *origin)

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        if self.saved is None and self.ctx._to_save:
            raise RuntimeError(SECOND_TIME)
        if self.ctx._materialize:
            grads = [
                TENSORS.make(zeros(*like)) if g is None and like is not None else g
                for g, like in zip(grads, self.likes, strict=True)
            ]
        with set_grad_enabled(create_graph):
            found = self.owner.backward(self.ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        found = self._checked(found)
        return [
            None if g is None else _fit(g, edge) for g, edge in zip(found, self.edges, strict=True)
        ]

    def _checked(self, found: tuple) -> tuple:
        if len(found) > len(self.edges) and all(g is None for g in found[len(self.edges) :]):
            found = found[: len(self.edges)]
        if len(found) != len(self.edges):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{len(self.edges)}, got {len(found)})"
            )
        return found

    def release(self) -> None:
        if self.saved:
            self.saved = None


def _fit(grad: Any, edge: Any) -> Any:
    """The shape and dtype of what the gradient is of."""
    if edge is None:
        return grad
    shape, dtype = edge[0].likes[edge[1]]
    if tuple(grad.shape) != tuple(shape):
        grad = grad.sum_to_size(*shape) if grad.dim() >= len(shape) else grad.expand(shape)
    return grad if grad.dtype is dtype else grad.to(dtype)


class Function:
    """Subclass with static `forward(ctx, *args)` (or `forward(*args)` and
    `setup_context(ctx, inputs, output)`) and `backward(ctx, *grads)`; call with `.apply`.
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = type(f"{cls.__name__}Backward", (FunctionCtx,), {})()
        edges = [TENSORS.edge(a) if TENSORS.is_tensor(a) else None for a in args]
        ctx.needs_input_grad = tuple(edge is not None for edge in edges)
        recording = STATE.grad and any(ctx.needs_input_grad)
        if not recording:
            edges = [None] * len(args)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        if not recording:
            return output
        return _record(cls, ctx, args, edges, output)


def _record(cls: type, ctx: FunctionCtx, args: tuple, edges: list, output: Any) -> Any:
    many = isinstance(output, tuple | list)
    outputs = list(output) if many else [output]
    likes = [(t._shape, t.dtype) if TENSORS.is_tensor(t) else None for t in outputs]
    fn = FunctionFn(cls, ctx, edges, likes)
    inputs = {id(a) for a in args if TENSORS.is_tensor(a)}
    dirty = {id(t) for t in ctx._dirty}
    fixed = {id(t) for t in ctx._non_differentiable}
    results = []
    for number, tensor in enumerate(outputs):
        if not TENSORS.is_tensor(tensor) or id(tensor) in fixed or not tensor.dtype.is_inexact:
            results.append(tensor)
            continue
        if id(tensor) in inputs and id(tensor) not in dirty:
            tensor = tensor.view_as(tensor).detach()
        if id(tensor) in dirty and tensor.is_leaf and tensor.requires_grad:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        results.append(TENSORS.attach(tensor, fn, number))
    fn.save(ctx._to_save, results)
    ctx._to_save = (None,) * len(ctx._to_save)  # the tape entry holds them from here on
    ctx._fn_ref = weakref.ref(fn)
    return tuple(results) if many else results[0]


class _OnceFn(ErrorFn):
    __slots__ = ()


def once_differentiable(backward: Callable) -> Callable:
    """The gradients that this backward gives cannot be differentiated again."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            found = backward(ctx, *grads)
        if not STATE.grad:
            return found
        many = isinstance(found, tuple)
        tensors = found if many else (found,)
        edges = [TENSORS.edge(g) for g in grads if TENSORS.is_tensor(g)]
        if not any(edges):
            edges = [(ctx._fn, 0)]
        message = (
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
        results = []
        for tensor in tensors:
            if tensor is None:
                results.append(None)
                continue
            like = (tuple(tensor.shape), tensor.dtype)
            fresh = tensor.detach()
            results.append(TENSORS.attach(fresh, _OnceFn(edges, (like,), "", message), 0))
        return tuple(results) if many else results[0]

    return wrapped
