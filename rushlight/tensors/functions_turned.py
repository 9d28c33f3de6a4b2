"""View functions in place: `x.t_()`, `x.transpose_(0, 1)`, `x.squeeze_()` and their like.

In: a tensor. Out: the same object, which now sees its memory as the view does. No element moves.
A view that was taken before keeps what it sees; it cannot be written under autograd any more
(`inplace.assign` says so), because its base is not what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.tensors.functions_shape import as_strided
from rushlight.tensors.functions_view import squeeze, t, transpose, unsqueeze
from rushlight.tensors.tensor import Tensor, seen_again


def _in_place(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if STATE.grad and self.requires_grad and self.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        before = seen_again(self)
        view = function(before, *args, **kwargs)
        if view is not before:
            self._shape, self._view, self._grad = view._shape, view._view, view._grad
            self._node, self._seen = view._node, view._seen
            self._counter.version += 1
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{name[:-1]}, in place: the tensor itself becomes the view."
    return method


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Callable] = {
    "as_strided_": _in_place(as_strided, "as_strided_"),
    "squeeze_": _in_place(squeeze, "squeeze_"),
    "swapaxes_": _in_place(transpose, "swapaxes_"),
    "swapdims_": _in_place(transpose, "swapdims_"),
    "t_": _in_place(t, "t_"),
    "transpose_": _in_place(transpose, "transpose_"),
    "unsqueeze_": _in_place(unsqueeze, "unsqueeze_"),
}
