"""The Tensor: a storage, a view onto it, and its place in autograd.

Methods that follow from op records are put on the class by `bind`, irregular ones by `functions_*`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import prod
from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.autograd.node import AccumulateGrad, GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.base.devices import CPU, DEVICES, META, device, find_device
from rushlight.base.dtypes import DType
from rushlight.engine.capture import open_session
from rushlight.engine.live import Ref, is_held
from rushlight.ir.device import device_of
from rushlight.ir.node import NO_VALUE, Node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.grad_side import Grad, GradSide, follow_base, is_leaf_with_grad, view_history
from rushlight.tensors.settle import settled_value
from rushlight.tensors.size import Size, is_row_major, row_major
from rushlight.tensors.storage import EAGER, SNAPSHOT_BYTES, Counter, Storage
from rushlight.tensors.view import View, read_through


def _is_on(kind: str) -> property:
    return property(lambda tensor: DEVICES.used and tensor.device.type == kind)


class Tensor(GradSide):
    """A multi-dimensional array of one dtype.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, 2.0]) * 2
    tensor([2., 4.])
    """

    __slots__ = (
        "_storage", "_shape", "_dtype", "_view", "_node", "_seen", "_counter", "_grad",
        "__dict__", "__weakref__",
    )  # fmt: skip

    _storage: Storage
    _shape: tuple[int, ...]
    _dtype: DType
    _view: View | None
    _node: Node | None  # the cached value of a view, for `_seen`
    _seen: Node | None
    _counter: Any
    _grad: Grad | None

    __module__ = "rushlight"
    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Tensor or not args:
            return LEGACY.build(cls, args)
        found = LEGACY.build(cls, args)
        return found.as_subclass(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("rushlight"):
            LEGACY.subclassed()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        return LEGACY.torch_function(cls, func, types, args, kwargs)

    @staticmethod
    def _disabled_torch_function(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The `__torch_function__` of classes that never take over a call."""
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
        """A tensor of class `cls` that shares memory with `data`, a leaf."""
        self = object.__new__(cls)
        _share(self, data)
        if self._view is not None:
            view = data._view
            self._view = View(view.steps, view.strides, view.offset)  # type: ignore[union-attr]
        if require_grad:
            self.requires_grad_(True)
        return self

    def as_subclass(self, cls: type) -> Any:
        made = object.__new__(cls)
        _share(made, self)
        made._grad = self._grad
        return made

    # Reading ------------------------------------------------------------------------------

    def _value(self) -> Node:
        """The node of the value seen now."""
        storage = self._storage
        if storage.foreign is not None:
            return self._foreign_value()
        if self._view is None:
            return storage.node
        seen, node = storage.node, self._node
        # A node that another tensor's storage held may be overwritten once that tensor is gone.
        if self._seen is not seen or (
            node.leaf and node is not seen and not is_held(node)  # type: ignore[union-attr,arg-type]
        ):
            if self._view.widens:
                return settled_value(self)
            self._seen = seen
            session, steps = open_session(), self._view.steps
            start = None if session is None else session.start_of(storage, steps)
            self._node = node = read_through(*(start or (seen, steps)))
        return node  # type: ignore[return-value]

    def _foreign_value(self) -> Node:
        view, session = self._view, open_session()
        if session is None:
            if self._storage.reclaim():
                return self._value()
        else:
            node = session.foreign.get(self._storage)
            if node is not None:
                return node if view is None else read_through(node, view.steps)
            start = None if view is None else session.start_of(self._storage, view.steps)
            if start is not None:
                return read_through(*start)
            session.refuse_shown(self._storage)
        if self.numel() * self._dtype.itemsize > SNAPSHOT_BYTES:
            EAGER.wanted = True
            node = self._storage.node
            return node if view is None else read_through(node, view.steps)
        if view is None:
            return self._storage.snapshot()
        is_most = 2 * self.numel() > self._storage.node.numel()  # faster in one run
        if view.changes_elements or (is_most and not self.is_contiguous()):
            return read_through(self._storage.snapshot(), view.steps)
        return self._storage.foreign_view(self._shape, self.stride(), view.offset)

    def __rushlight_apply__(self: Any, args: tuple, kwargs: dict) -> Any:
        """`record(tensor, ...)`: `self` is the record (see OpDef.__call__)."""
        return LEGACY.apply(self, args, kwargs)

    # Shape --------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return tuple.__new__(Size, self._shape)

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return Size(self._shape)
        return self._shape[_wrap(dim, len(self._shape))]

    def dim(self) -> int:
        return len(self._shape)

    ndimension = dim

    @property
    def ndim(self) -> int:
        return len(self._shape)

    def numel(self) -> int:
        return prod(self._shape)

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        strides = row_major(self._shape) if self._view is None else self._view.strides
        return strides if dim is None else strides[_wrap(dim, len(self._shape))]

    def storage_offset(self) -> int:
        return 0 if self._view is None else self._view.offset

    def is_contiguous(self, memory_format: Any = None) -> bool:
        if memory_format is not None and str(memory_format) == "torch.channels_last":
            return self.dim() == 4 and is_row_major(
                [self._shape[i] for i in (0, 2, 3, 1)], [self.stride()[i] for i in (0, 2, 3, 1)]
            )
        return self._view is None or is_row_major(self._shape, self._view.strides)

    def element_size(self) -> int:
        return self._dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self._dtype.itemsize

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def device(self) -> device:
        if self._storage.node.buffer is NO_VALUE:
            return META
        if not DEVICES.used:
            return CPU
        return find_device(device_of(self._value()) or CPU)

    @property
    def is_meta(self) -> bool:
        return self._storage.node.buffer is NO_VALUE

    @property
    def layout(self) -> Any:
        return LEGACY.strided

    is_cuda, is_xpu, is_mps = map(_is_on, ("cuda", "xpu", "mps"))
    is_sparse = is_quantized = is_mkldnn = is_nested = property(lambda _: False)

    def is_floating_point(self) -> bool:
        return self._dtype.kind == "float"

    def is_complex(self) -> bool:
        return self._dtype.kind == "complex"

    def is_signed(self) -> bool:
        return self._dtype.is_signed

    def get_device(self) -> int:
        return -1 if self.device in (CPU, META) else self.device.index or 0

    # The same memory ----------------------------------------------------------------------

    def detach(self) -> Tensor:
        """The same memory without history."""
        made = object.__new__(Tensor)
        _share(made, self)
        if self._view is not None:
            made._view = View(self._view.steps, self._view.strides, self._view.offset)
        return made

    @property
    def data(self) -> Tensor:
        made = self.detach()
        made._counter = Counter()
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        """Take over another tensor's memory; the history and the version stay."""
        self._check_data(value)
        view = value._view
        self._storage, self._shape, self._dtype = value._storage, value._shape, value._dtype
        self._view = None if view is None else View(view.steps, view.strides, view.offset)
        self._node, self._seen, self._counter = value._node, value._seen, Counter()
        if self._grad is not None:
            self._grad.accumulator = None


class _Late:
    """Filled by modules that need the Tensor class (no import circle)."""

    build: Callable[[type, tuple], Tensor]
    apply: Callable[[OpDef, tuple, dict], Tensor]
    strided: Any = None
    subclassed: Callable[[], None]  # a class of tensors was made (overrides/dispatch.py)
    torch_function: Callable[..., Any]
    taken_over: Callable[..., Any]  # a function given an object that is no tensor
    optimized: Callable[..., Any]  # the class of compiled modules (_dynamo/optimized_module.py)
    sparse: Callable[[str], Any]  # a function of sparse/convert.py or lookup.py


LEGACY = _Late()


class _Watch:
    seen: list[Any] | None = None  # tensors whose history is used, while somebody asks (func/)


WATCH = _Watch()


def _share(made: Tensor, data: Tensor) -> None:
    made._storage, made._shape, made._dtype = data._storage, data._shape, data._dtype
    made._view, made._node, made._seen = data._view, data._node, data._seen
    made._counter, made._grad = data._counter, None


def new_tensor(node: Node) -> Tensor:
    """A tensor with a storage of its own."""
    made = object.__new__(Tensor)
    made._storage = made._counter = Storage(node, STATE.inference)
    made._shape, made._dtype = node.shape, node.dtype
    made._view = made._node = made._seen = made._grad = None
    return made


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of this tensor goes; None when it needs none."""
    if tensor._view is not None:
        follow_base(tensor)
    meta = tensor._grad
    if meta is None or not meta.requires:
        return None
    if WATCH.seen is not None:
        WATCH.seen.append(tensor)
    if meta.fn is not None:
        return (meta.fn, meta.number)
    accumulator = meta.accumulator() if meta.accumulator is not None else None
    if accumulator is None:
        accumulator = AccumulateGrad(tensor)
        meta.accumulator = weakref.ref(accumulator)
    return (accumulator, 0)


def make_view(
    tensor: Tensor, steps: tuple, shape: tuple, strides: tuple, offset: int, label: str
) -> Tensor:
    """A tensor that sees the same memory through more steps."""
    if tensor._view is not None and tensor._view.widens:
        tensor._value()  # while it may still have the memory for itself: see settle.py
    parent = tensor._view
    if parent is None or parent.base is None or is_leaf_with_grad(tensor):
        base, own = tensor, steps
    else:
        base, own = parent.base, (*parent.own, *steps)
    made = object.__new__(Tensor)
    _share(made, tensor)
    made._shape = shape
    all_steps = steps if parent is None else (*parent.steps, *steps)
    made._view = View(all_steps, strides, offset, base, own, STATE.grad, label)
    if parent is not None and base is parent.base:
        made._view.one_of = parent.one_of
    if steps and steps[-1][3] is not None:
        made._dtype = steps[-1][3]
    made._node = made._seen = None  # made when it is read: often only its element is
    if tensor._dtype.is_inexact:
        edge = edge_of(tensor) if STATE.grad else None
        base_fn = None if base._grad is None else base._grad.fn
        if edge is not None:
            made._grad = Grad(*view_history(edge, tensor, steps, label))
        elif base_fn is not None:  # else `follow_base` makes it when the base has a history
            made._grad = Grad(requires=False)
        if made._grad is not None:
            made._grad.base_fn = base_fn
    return made


def seen_again(tensor: Tensor) -> Tensor:
    """Another object for the same memory, view and history."""
    made = object.__new__(Tensor)
    _share(made, tensor)
    made._grad = tensor._grad
    return made


def base_of(tensor: Tensor) -> Tensor:
    """The tensor that shows the whole storage."""
    view = tensor._view
    if view is None:
        return tensor
    if view.base is not None and view.base._view is None:
        return view.base
    made = object.__new__(Tensor)
    _share(made, tensor)
    node = tensor._storage.node
    made._shape, made._dtype = node.shape, node.dtype
    made._view = made._node = made._seen = None
    return made


def _wrap(dim: int, ndim: int) -> int:
    low, high = (-1, 0) if ndim == 0 else (-ndim, ndim - 1)
    if not low <= dim <= high:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
        )
    return dim + ndim if dim < 0 else dim


def _attach(tensor: Tensor, fn: GradFn, number: int) -> Tensor:
    view = tensor._view
    if view is not None and view.base is not None:  # the function's history, not the base's
        tensor._view = View(view.steps, view.strides, view.offset)
    tensor._grad = Grad(fn, number)
    return tensor


TENSORS.make = new_tensor
TENSORS.value = Tensor._value
TENSORS.attach = _attach
TENSORS.hold = lambda node: Ref(node, saved=True)
TENSORS.edge = edge_of
TENSORS.is_tensor = lambda value: isinstance(value, Tensor)
