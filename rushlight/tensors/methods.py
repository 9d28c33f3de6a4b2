"""Puts everything that is not in tensor.py on the Tensor class. Imported once, by the package."""

from __future__ import annotations

from typing import Any

from rushlight.autograd import api
from rushlight.autograd.protocol import TENSORS
from rushlight.engine.realize import flush
from rushlight.engine.recipe_flush import flush_with
from rushlight.tensors import (
    bind,
    convert,
    families,
    functions_complex,
    functions_math,
    functions_slices,
    functions_view,
    indexing,
    interop,
)  # fmt: skip
from rushlight.tensors.accumulate import accumulate, is_plain
from rushlight.tensors.argument_names import (
    LISTS,
    OVERLOADS,
    takes_dtype,
    with_other_names,
    with_python_types,
)
from rushlight.tensors.creation import new_empty, new_full, new_ones, new_zeros
from rushlight.tensors.from_data import new_tensor_method
from rushlight.tensors.printing import tensor_repr
from rushlight.tensors.tensor import Tensor


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:  # fmt: skip
    """Add the gradients of this tensor to the `.grad` of the leaves."""
    api.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def iterate(self: Tensor) -> Any:
    if not self._shape:
        raise TypeError("iteration over a 0-d tensor")
    return iter(functions_slices.unbind(self, 0))


def text(self: Tensor, *, tensor_contents: str | None = None) -> str:
    return tensor_repr(self, tensor_contents=tensor_contents)


PROPERTIES = {
    "T": functions_view.reversed_dims,
    "mT": functions_view.matrix_transpose,
    "H": functions_complex.hermitian,
    "mH": functions_complex.adjoint,
}
WRITABLE_PROPERTIES = {
    "real": (functions_complex.real, functions_complex.set_real),
    "imag": (functions_complex.imag, functions_complex.set_imag),
}  # fmt: skip
SPECIAL = {
    "backward": backward, "__iter__": iterate, "__repr__": text, "__str__": text,
    "__getitem__": indexing.getitem, "__setitem__": indexing.setitem,
    "numpy": interop.numpy, "__array__": interop.array, "__dlpack__": interop.dlpack,
    "__dlpack_device__": interop.dlpack_device,
    "is_set_to": interop.is_set_to,
    "item": interop.item, "tolist": interop.tolist, "__bool__": interop.to_bool,
    "__int__": interop.to_int, "__float__": interop.to_float, "__complex__": interop.to_complex,
    "__index__": interop.to_index, "__len__": interop.to_len, "__contains__": interop.contains,
    "__format__": interop.to_format, "new_zeros": new_zeros, "new_ones": new_ones,
    "new_empty": new_empty, "new_full": new_full, "new_tensor": new_tensor_method,
}  # fmt: skip


TABLES = (families.METHODS, convert.METHODS, SPECIAL)


def install() -> dict[str, Any]:
    """Everything on the class; gives the bound functions of torch."""
    public = bind.bind_records()
    bind.bind_operators()
    for table in TABLES:
        for name, function in table.items():
            ready = with_python_types(function) if takes_dtype(function) else function
            setattr(Tensor, name, ready)
    for alias, name in functions_math.ALIASES.items():
        for end in ("", "_"):
            if hasattr(Tensor, name + end):
                setattr(Tensor, alias + end, getattr(Tensor, name + end))
    for name in (*OVERLOADS, *LISTS):
        if hasattr(Tensor, name):
            setattr(Tensor, name, with_other_names(getattr(Tensor, name), name))
    for name, function in PROPERTIES.items():
        setattr(Tensor, name, property(function))
    for name, pair in WRITABLE_PROPERTIES.items():
        setattr(Tensor, name, property(*pair))
    TENSORS.finish, TENSORS.compute = flush, flush_with
    TENSORS.accumulate, TENSORS.is_plain = accumulate, is_plain
    return public


PUBLIC = install()
