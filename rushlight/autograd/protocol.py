"""What autograd needs from the Tensor class, which plugs itself in (autograd never imports it).

make(node)             a new Tensor without history
value(tensor)          its current Node
attach(tensor, fn, nr) make the tensor output `nr` of a gradient function
hold(node)             a registered holder (`.node`) of a value that backward will read
accumulate(tensor, g)  add to `tensor.grad`, in place where PyTorch does; a third argument says that
                       nobody else has `g`
finish()               compute what is pending (the end of backward is a flush point)
compute(recipe, nodes) outputs of a recipe in memory, with all that is pending; None: not this way
is_plain(a, b)         are both of the class Tensor itself, with one dtype and shape?
edge(tensor)           (gradient function, output number) or None when no gradient is needed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.ir.node import Node


@dataclass(slots=True)
class Protocol:
    """What autograd asks of tensors, as functions."""

    make: Callable[[Node], Any]
    value: Callable[[Any], Node]
    attach: Callable[[Any, Any, int], Any]
    hold: Callable[[Node], Any]
    accumulate: Callable[..., None]
    edge: Callable[[Any], Any]
    is_tensor: Callable[[Any], bool]
    finish: Callable[[], None]
    compute: Callable[[Any, list[Node]], list[Node] | None]
    is_plain: Callable[[Any, Any], bool]


def _missing(*_: Any) -> Any:
    raise RuntimeError("autograd is used before rushlight.tensors has registered its Tensor class")


TENSORS = Protocol(*[_missing] * 10)
