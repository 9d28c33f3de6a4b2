"""Tensors that a Module recognizes by their class: Parameter and Buffer.

Those whose shape is not known yet have a dtype and a device and can be moved and converted;
`materialize(shape)` makes them ordinary tensors in place, so what refers to them (an optimizer)
keeps working.
"""

from __future__ import annotations

from typing import Any, ClassVar

import rushlight as torch

# What packages make the metaclasses of their own kinds of parameters from.
_ParameterMeta = type(torch.Tensor)


class Parameter(torch.Tensor):
    """A tensor which, assigned to an attribute of a Module, becomes one of its parameters.

    Example:
        >>> weight = Parameter(torch.zeros(2))
        >>> weight.requires_grad
        True
    """

    __torch_function__ = staticmethod(torch.Tensor._disabled_torch_function)  # type: ignore

    def __new__(cls, data: torch.Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Share the memory of `data` in a new leaf tensor."""
        if data is None:
            data = torch.empty(0)
        if type(data) is not torch.Tensor and hasattr(data, "_as_parameter"):  # a DTensor
            return data._as_parameter(requires_grad)
        return torch.Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __repr__(self) -> str:
        """Show the tensor under a line that names the class."""
        if type(self) is not Parameter:
            return f"Parameter containing:\nParameter({super().__repr__()})"
        plain = self.detach().requires_grad_(self.requires_grad)
        return f"Parameter containing:\n{plain!r}"

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Copy the data; the gradient stays behind, as in PyTorch."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        """Pickle the data and the flag."""
        return rebuild_parameter, (type(self), self.detach(), self.requires_grad)


def rebuild_parameter(cls: type[Parameter], data: torch.Tensor, requires_grad: bool) -> Parameter:
    """Make a parameter again from what `Parameter.__reduce_ex__` wrote."""
    return cls(data, requires_grad)


class _BufferMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """Say yes to the tensors made by `Buffer(...)`."""
        return isinstance(instance, torch.Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferMeta):
    """A tensor which, assigned to an attribute of a Module, becomes one of its buffers.

    The call returns a plain tensor that carries two marks, so buffers cost nothing in use.

    Example:
        >>> isinstance(Buffer(torch.zeros(2)), Buffer)
        True
    """

    def __new__(cls, data: torch.Tensor | None = None, *, persistent: bool = True) -> Any:
        """Share the memory of `data`; `persistent` says if `state_dict` contains it."""
        if data is None:
            data = torch.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked


NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
    "Call `forward` to initialize the parameters before accessing their attributes."
)
NO_VALUE = (
    "Attempted to use an uninitialized parameter in {}. This error happens when you are using a "
    "`LazyModule` or explicitly manipulating `torch.nn.parameter.{}` objects. When using "
    "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling "
    "torch functions"
)
NOT_SHARED = (
    "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
    "parameters before calling `module.share_memory()`."
)


def _conversion(name: str) -> Any:
    def convert(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        return getattr(self._nothing, name)(*args, **kwargs)

    convert.__name__ = name
    convert.__doc__ = f"`{name}` of the empty tensor."
    return convert


def _view_of_nothing() -> Any:
    """A tensor that is a view is asked for its value, and refuses; else its memory is taken."""
    return torch.empty(0).expand(0).detach()._view


class UninitializedTensorMixin:
    """What both share: no shape, no value, conversions of nothing."""

    cls_to_become: ClassVar[type]

    def materialize(self, shape: Any, device: Any = None, dtype: torch.dtype | None = None) -> None:
        """Become an ordinary tensor of this shape; its values are not set."""
        device = self._nothing.device if device is None else device
        dtype = self._nothing.dtype if dtype is None else dtype
        del self._nothing
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self.data = torch.empty(shape, device=device, dtype=dtype)

    @property
    def shape(self) -> Any:
        """There is none."""
        raise RuntimeError(NO_SHAPE)

    @property
    def dtype(self) -> Any:
        """The dtype that it will have."""
        return self._nothing.dtype

    @property
    def device(self) -> Any:
        """The device on which it will be."""
        return self._nothing.device

    @property
    def data(self) -> torch.Tensor:
        """An empty tensor of the dtype and device."""
        return self._nothing

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        self._nothing = value

    def share_memory_(self) -> Any:
        """Refuse."""
        raise RuntimeError(NOT_SHARED)

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Convert the empty tensor."""
        return self._nothing.to(*args, **kwargs)

    half, float, double, bfloat16 = map(_conversion, ("half", "float", "double", "bfloat16"))
    char, short, int, long = map(_conversion, ("char", "short", "int", "long"))
    cpu, cuda = map(_conversion, ("cpu", "cuda"))

    def __repr__(self) -> str:
        """The name of the class."""
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle what is known."""
        options = (self.requires_grad, self.device, self.dtype)
        return type(self), options

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        """Another one of the same kind."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def _refuse(self, name: str) -> Any:
        raise ValueError(NO_VALUE.format(name, type(self).__name__))

    def _value(self) -> Any:
        """What every operation asks an operand for."""
        return self._refuse("an operation")

    def numel(self) -> Any:
        """Refuse."""
        return self._refuse("numel")

    def size(self, dim: Any = None) -> Any:
        """Refuse."""
        return self._refuse("size")

    def dim(self) -> Any:
        """Refuse."""
        return self._refuse("dim")

    def detach(self) -> Any:
        """Refuse."""
        return self._refuse("detach")


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first input of its module will give.

    Example:
        >>> weight = UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape, type(weight) is Parameter
        (torch.Size([2, 3]), True)
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: torch.dtype | None = None
    ) -> UninitializedParameter:
        """Keep the dtype and the device for later."""
        nothing = torch.empty(0, device=device, dtype=dtype)
        made = torch.Tensor._make_subclass(cls, nothing, requires_grad)
        made._nothing, made._view = nothing, _view_of_nothing()
        return made


class UninitializedBuffer(UninitializedTensorMixin, torch.Tensor):
    """A buffer whose shape the first input of its module will give.

    Example:
        >>> mean = UninitializedBuffer()
        >>> mean.materialize((3,))
        >>> mean.shape
        torch.Size([3])
    """

    cls_to_become = torch.Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        """Keep the dtype and the device for later; `persistent` as of Buffer."""
        nothing = torch.empty(0, device=device, dtype=dtype)
        made = torch.Tensor._make_subclass(cls, nothing, requires_grad)
        made._nothing, made._view = nothing, _view_of_nothing()
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Say if a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
