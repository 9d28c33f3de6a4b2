"""`torch.autograd.Variable`: the old name of a tensor with history."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.protocol import TENSORS


class VariableMeta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return TENSORS.is_tensor(instance)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor, requires_grad=False)`: the same memory in a new leaf tensor.

    >>> import rushlight as torch
    >>> torch.autograd.Variable(torch.ones(1), requires_grad=True).requires_grad
    True
    """
