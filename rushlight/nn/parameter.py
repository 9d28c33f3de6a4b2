"""Tensors that a Module recognizes by their class: Parameter and Buffer."""

from __future__ import annotations

from typing import Any

import rushlight as torch


class Parameter(torch.Tensor):
    """A tensor which, assigned to an attribute of a Module, becomes one of its parameters.

    Example:
        >>> weight = Parameter(torch.zeros(2))
        >>> weight.requires_grad
        True
    """

    def __new__(cls, data: torch.Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Share the memory of `data` in a new leaf tensor."""
        if data is None:
            data = torch.empty(0)
        return torch.Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __repr__(self) -> str:
        """Show the tensor under a line that names the class."""
        plain = self.detach().requires_grad_(self.requires_grad)
        return f"Parameter containing:\n{plain!r}"

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
