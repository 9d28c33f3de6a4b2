"""Functions that pick elements or put them: gather, scatter, nonzero, ...

Results whose shape depends on values (nonzero, masked_select, unique) are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import DType, bool_, dtype_of_numpy, int32, int64
from rushlight.ir.arguments import wrap_dim
from rushlight.ir.opdef import OpDef
from rushlight.tensors.apply import apply
from rushlight.tensors.forms import in_place_form, linked
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_view import expand, reshape, unsqueeze
from rushlight.tensors.index_checks import check_index, in_range
from rushlight.tensors.indexing import check_same, getitem, put
from rushlight.tensors.inplace import check_inplace, store
from rushlight.tensors.interop import look
from rushlight.tensors.numbers import check_number
from rushlight.tensors.out import check_apart, write_out
from rushlight.tensors.placing import brought
from rushlight.tensors.storage import data_node
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import LEGACY, Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name, number_name


def known(array: np.ndarray, like: Tensor | None = None) -> Tensor:
    """A tensor of values already computed, on the device of `like`; a table without it goes with
    tensors of any device."""
    node = data_node(np.asarray(array), dtype_of_numpy(array.dtype))
    node.buffer.device = None
    return new_tensor(node) if like is None else brought(new_tensor(node), like)


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    if as_tuple:
        return nonzero_indices(input)
    places = np.nonzero(np.atleast_1d(look(input)))
    if not input.dim():
        rows = np.zeros((int(bool(look(input))), 0), np.int64)
    else:
        rows = np.stack(places, 1).astype(np.int64)
    result = known(rows, input)
    return result if out is None else write_out(out, result)


def argwhere(input: Tensor) -> Tensor:
    return nonzero(input)


def nonzero_indices(input: Tensor) -> tuple[Tensor, ...]:
    values = look(input)
    if values.ndim == 0:
        values = values.reshape(1)
    return tuple(known(place.astype(np.int64), input) for place in np.nonzero(values))


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    if mask._dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    check_apart(out, (input, mask))
    shape = np.broadcast_shapes(input._shape, mask._shape)
    wide, chosen = expand(input, shape), expand(mask, shape)
    if not shape:
        wide, chosen = reshape(wide, (1,)), reshape(chosen, (1,))
    result = getitem(wide, chosen)
    return result if out is None else write_out(out, result)


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False,
           out: Tensor | None = None) -> Tensor:  # fmt: skip
    index = _whole(index, "gather")
    if sparse_grad and input.requires_grad and out is None and input.dim() and index.numel():
        return LEGACY.sparse("sparse_gather")(input, dim % input.dim(), index)
    if not index.numel():
        result = linked(new_tensor(ops.zeros(index._shape, input._dtype)), input)
    else:
        x, at = _lined(input, index), _lined(index, input)
        _check_range(x, dim, at)
        result = apply(ops.gather, (x, dim, at))
        result = result if at is index else reshape(result, index._shape)
    check_apart(out, (input, index))
    return result if out is None else write_out(out, result, exact=True)


def _whole(index: Tensor, name: str) -> Tensor:
    """An index in int64. One without elements may have any dtype."""
    if index._dtype not in (int64, int32) and index.numel():
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    return index if index._dtype is int64 else apply(ops.cast, (index, int64))


def _lined(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor without dimensions counts as one of one element beside one that has a dimension."""
    return reshape(tensor, (1,)) if not tensor.dim() and other.dim() == 1 else tensor


def _scattered(record: OpDef, input: Tensor, dim: int, index: Tensor, *rest: Any) -> Tensor:
    """One of the scatter records; the first of `rest` is the source."""
    index = _whole(index, record.name)
    wrap_dim(dim, input.dim())
    if not index.numel():
        return input.clone()
    src = rest[0]
    if src._dtype is not input._dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    x, at = _lined(input, index), _lined(index, input)
    _check_range(x, dim, at)
    result = apply(record, (x, dim, at, _lined(src, at), *rest[1:]))
    return result if x is input else reshape(result, ())


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None,
            reduce: str | None = None) -> Tensor:  # fmt: skip
    given = src if value is None else value
    if not isinstance(given, Tensor):
        check_number(given, input._dtype)
        given = expand(tensor_of(given, input._dtype), index._shape)
    if reduce is None:
        return _scattered(ops.scatter, input, dim, index, given)
    kind = {"add": "sum", "multiply": "prod"}.get(reduce)
    if kind is None:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _scattered(ops.scatter_reduce, input, dim, index, given, kind, True)


def _check_range(input: Tensor, dim: int, index: Tensor) -> bool:
    """Are the indices known to be in range?"""
    if not input.dim():
        return False
    dim = wrap_dim(dim, input.dim())
    size = input._shape[dim]
    text = f"index {{bad}} is out of bounds for dimension {dim} with size {size}"
    return check_index(index, size, text, RuntimeError)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scattered(ops.scatter_add, input, dim, index, src)


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    return _scattered(ops.scatter_reduce, input, dim, index, src, reduce, include_self)


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index._dtype not in (int64, int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    x = input if input.dim() else reshape(input, (1,))
    dim = wrap_dim(dim, x.dim())
    size = x._shape[dim]
    seen = check_index(index, size, "index out of range in self", IndexError)
    key = (slice(None),) * dim + (in_range(reshape(index, (-1,)), size, seen),)
    check_apart(out, (input, index))
    result = getitem(x, key) if input.dim() else reshape(getitem(x, key), ())
    return result if out is None else write_out(out, result)


def _lines(tensor: Tensor, dim: int, index: Tensor, source: Any, kind: str, seen: bool) -> Tensor:
    """`seen`: are the indices known to be in range?"""
    dim = wrap_dim(dim, tensor.dim())
    source = source if isinstance(source, Tensor) else tensor_of(source, tensor._dtype)
    view = tensor if tensor.dim() else unsqueeze(tensor, 0)
    at = in_range(reshape(index, (-1,)), view._shape[dim], seen)
    put(view, [(dim, at)], source, kind)
    return tensor


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    if source._dtype is not self._dtype:
        raise RuntimeError(
            f"index_add_(): self ({self._dtype.scalar_name}) and source "
            f"({source._dtype.scalar_name}) must have the same scalar type"
        )
    at = wrap_dim(dim, self.dim())
    have, want = list(source._shape), list(self._shape)
    if self.dim() and source.dim() and (have[:at] + have[at + 1 :] != want[:at] + want[at + 1 :]):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {want} source.shape = {have}"
        )
    if self.dim() > 1:
        seen = _check_range(self, dim, index)
    else:
        seen = check_index(index, self.numel(), "index out of range in self", IndexError)
    return _lines(self, dim, index, source if alpha == 1 else source * alpha, "sum", seen)


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    _need_long(index, "index_copy_()")
    if source._dtype is not self._dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{self._dtype.scalar_name} and (source) {source._dtype.scalar_name}"
        )
    at, size = (wrap_dim(dim, self.dim()), self._shape) if self.dim() else (0, (1,))
    text = f"index_copy_(): index {{bad}} is out of bounds for dimension {at} with size {size[at]}"
    seen = check_index(index, size[at], text, IndexError)
    return _lines(self, dim, index, source, "set", seen)


def _need_long(index: Tensor, name: str) -> None:
    if index._dtype is not int64 and index.numel():
        raise RuntimeError(
            f"{name}: Expected a long tensor for index, but got {index._dtype.scalar_name}"
        )


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Through a mask: equal indices are one place, so the value's gradient counts it once."""
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.dim()} dimension(s)."
        )
    is_complex = (
        value._dtype.is_complex if isinstance(value, Tensor) else isinstance(value, complex)
    )
    if is_complex and not self._dtype.is_complex:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    if index._dtype is not int64 and index.numel():
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    dim = wrap_dim(dim, self.dim())
    size = self._shape[dim] if self.dim() else 1
    chosen = new_tensor(ops.zeros((size,), bool_))
    put(chosen, [(0, reshape(index, (-1,)))], tensor_of(True), "set")
    along = [size if d == dim else 1 for d in range(self.dim())]
    return masked_fill_(self, reshape(chosen, along), value)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    check_same(self, values)
    if not accumulate:
        self[tuple(indices)] = values
        return self
    pairs: list[tuple[int, Tensor]] = []
    for item in indices:
        if item is not None and item._dtype is bool_:
            for place in nonzero_indices(item):
                pairs.append((len(pairs), place))
        elif item is not None:
            pairs.append((len(pairs), item))
    put(self, pairs, values, "sum")
    return self


def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    if source._dtype is not self._dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{self._dtype.scalar_name} and source.dtype = {source._dtype.scalar_name}"
        )
    flat = self.view(-1)
    put(flat, [(0, reshape(index, (-1,)))], reshape(source, (-1,)), "sum" if accumulate else "set")
    return self


def _functional(in_place: Callable) -> Callable:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return in_place(input.clone(), *args, **kwargs)

    function.__name__ = in_place.__name__.rstrip("_")
    return function


def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    _need_long(index, "take()")
    check_apart(out, (input, index))
    result = getitem(reshape(input, (-1,)), index)
    return result if out is None else write_out(out, result)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements at the indices along dim, both broadcast; negative ones count from the end."""
    if indices._dtype is not int64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{indices._dtype.scalar_name}"
        )
    if dim is None:
        return apply(ops.gather, (reshape(input, (-1,)), 0, reshape(indices, (-1,))))
    size = input._shape[wrap_dim(dim, input.dim())]
    indices = apply(ops.where, (indices < 0, indices + size, indices))
    return apply(ops.take_along_dim, (input, indices, dim))


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    if mask._dtype is not bool_:
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{cpp_name(mask._dtype)}"
        )
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.dim()} dimension(s)."
        )
    if not isinstance(value, Tensor):
        check_number(value, input._dtype)
    if not input._dtype.is_complex:
        value = _without_imaginary(value, input._dtype)
    if isinstance(value, Tensor) and value._dtype is not input._dtype:
        value = value.to(input._dtype)
    if not isinstance(value, Tensor) and input._dtype.is_integral:
        value = bool(value) if input._dtype is bool_ else int(value)
    return apply(ops.where, (mask, value, input), label="MaskedFillBackward0")


def _without_imaginary(value: Any, dtype: DType) -> Any:
    """A complex number without an imaginary part fits a real tensor; others raise."""
    if isinstance(value, Tensor) and value._dtype.is_complex:
        value = value.item()
    if not isinstance(value, complex):
        return value
    if dtype is bool_:
        return bool(value)
    if value.imag:
        kind = number_name(dtype)
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
    return value.real


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    check_inplace(self)
    return store(self, masked_fill(self, mask, value))


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    if source._dtype is not input._dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{input._dtype.scalar_name} and {source._dtype.scalar_name}"
        )
    if mask._dtype is not bool_:
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{mask._dtype.scalar_name}"
        )
    # The kernel checks its reads of the source, but one element is read without an index.
    if source.numel() == 1 < mask.numel() and int(look(mask).sum()) > 1:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return apply(ops.masked_scatter, (input, mask, source))


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    check_inplace(self)
    return store(self, masked_scatter(self, mask, source))


_IN_PLACE = (index_add_, index_copy_, index_fill_, index_put_, put_)
FUNCTIONS: dict[str, Callable] = {
    **by_name(
        nonzero, argwhere, masked_select, gather, scatter, scatter_add, scatter_reduce,
        index_select, take, take_along_dim, masked_fill, masked_scatter,
    ),
    **{function.__name__.rstrip("_"): _functional(function) for function in _IN_PLACE},
}  # fmt: skip
METHODS: dict[str, Callable] = {
    **FUNCTIONS,
    **{function.__name__: function for function in _IN_PLACE},
    "masked_fill_": masked_fill_, "masked_scatter_": masked_scatter_,
}  # fmt: skip


for _function in (scatter, scatter_add, scatter_reduce):
    METHODS[f"{_function.__name__}_"] = in_place_form(_function)
