"""Reductions and scans with PyTorch's overloads: no dim, one dim, several dims, dtype, and the
(values, indices) pairs of max, min, median and mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import DType, bool_, int64, uint8
from rushlight.ir.arguments import wrap_dim
from rushlight.ir.opdef import OpDef
from rushlight.tensors.apply import apply
from rushlight.tensors.complex_products import product, running_product
from rushlight.tensors.forms import in_place_form
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import flatten, reshape, squeeze, unsqueeze
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.operands import need_tensor
from rushlight.tensors.out import finish, write_out_all
from rushlight.tensors.placing import brought
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Max = result_class("max", ("values", "indices"))
Min = result_class("min", ("values", "indices"))
Mode = result_class("mode", ("values", "indices"))
CumMax = result_class("cummax", ("values", "indices"))
CumMin = result_class("cummin", ("values", "indices"))
AMinMax = result_class("aminmax", ("min", "max"))


def _dims(dim: Any) -> Any:
    """None and () are all dims; a list becomes a tuple."""
    if dim is None or isinstance(dim, int):
        return dim
    if hasattr(dim, "__index__") and not getattr(dim, "ndim", 0):
        return dim.__index__()
    return tuple(dim) or None


def cast_to(input: Tensor, dtype: DType | None) -> Tensor:
    return input if dtype is None or dtype is input._dtype else apply(ops.cast, (input, dtype))


def _label(name: str, dim: Any) -> str:
    return f"{name}Backward{0 if dim is None else 1}"


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    dim = _dims(dim)
    result = apply(ops.sum_, (cast_to(input, dtype), dim, bool(keepdim)), label=_label("Sum", dim))
    return finish(cast_to(result, dtype), out)  # whole numbers are added in int64


def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    clean = apply(ops.where, (apply(ops.isnan, (input,)), 0, input))
    return sum(clean, dim, keepdim, dtype=dtype)


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    there = apply(ops.logical_not, (apply(ops.isnan, (input,)),))
    return nansum(input, dim, keepdim) / sum(there, dim, keepdim)


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    input, dim = cast_to(input, dtype), _dims(dim)
    if not input._dtype.is_inexact:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {input._dtype.scalar_name}"
        )
    return finish(apply(ops.mean, (input, dim, bool(keepdim)), label=_label("Mean", dim)), out)


def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    x = cast_to(input, dtype)
    if x._dtype.is_complex:
        return product(x, dim, bool(keepdim))
    result = apply(ops.prod, (x, dim, bool(keepdim)), label=_label("Prod", dim))
    return cast_to(result, dtype)


def amax(
    input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    return finish(apply(ops.amax, (input, _dims(dim), bool(keepdim))), out)


def amin(
    input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    return finish(apply(ops.amin, (input, _dims(dim), bool(keepdim))), out)


def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None
) -> Any:
    found = AMinMax((amin(input, _all(dim), keepdim), amax(input, _all(dim), keepdim)))
    return write_out_all(out, found, exact=True)


def _all(dim: Any) -> Any:
    return () if dim is None else dim


def any(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    return finish(_like_byte(apply(ops.any_, (input, _dims(dim), bool(keepdim))), input), out)


def all(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    return finish(_like_byte(apply(ops.all_, (input, _dims(dim), bool(keepdim))), input), out)


def _like_byte(result: Tensor, input: Tensor) -> Tensor:
    """PyTorch gives uint8 for uint8."""
    return apply(ops.cast, (result, uint8)) if input._dtype is uint8 else result


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _position(ops.argmax, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _position(ops.argmin, input, dim, keepdim)


def _position(record: OpDef, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if input._dtype is bool_:
        raise RuntimeError(f"{record.name}(): does not support bool input")
    if dim is None and input.dim() > 1:
        flat = apply(record, (flatten(input), 0, False))
        return reshape(flat, (1,) * input.dim()) if keepdim else flat
    return apply(record, (input, dim, bool(keepdim)))


def _extreme(whole: Callable, record: OpDef, pair: type, both: OpDef, name: str) -> Callable:
    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None,
        out: Any = None,
    ) -> Any:  # fmt: skip
        need_tensor(name, "input", 1, input)
        second = dim if isinstance(dim, Tensor) else other
        if second is not None:
            return finish(apply(both, (input, second)), out)
        if dim is None:
            if not input.numel():
                raise RuntimeError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                    "Specify the reduction dim with the 'dim' argument."
                )
            return finish(whole(input), out)
        return write_out_all(out, along(input, dim, keepdim))

    def along(input: Tensor, dim: int, keepdim: bool) -> Any:
        if not input.dim():
            return pair((input.clone(), brought(tensor_of(0), input)))
        dim = wrap_dim(dim, input.dim())
        if not input._shape[dim]:
            raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")
        at = apply(record, (input, dim, True))
        values = apply(ops.gather, (input, dim, at), label=f"{name.capitalize()}Backward0")
        if not keepdim:
            values, at = squeeze(values, dim), squeeze(at, dim)
            if values._grad is not None and values._grad.fn is not None:
                values._grad.fn.label = f"{name.capitalize()}Backward0"
        return pair((values, at))

    function.__name__ = name
    return function


max = _extreme(lambda x: apply(ops.amax, (x, None, False), label="MaxBackward1"), ops.argmax, Max,
               ops.maximum, "max")  # fmt: skip
min = _extreme(lambda x: apply(ops.amin, (x, None, False), label="MinBackward1"), ops.argmin, Min,
               ops.minimum, "min")  # fmt: skip


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value (the smallest of several) and its last index."""
    dim = wrap_dim(dim, input.dim())
    if not input.dim():
        return Mode((input.clone(), brought(tensor_of(0), input)))
    a, b = unsqueeze(input, dim), unsqueeze(input, dim + 1)
    counts = sum(apply(ops.eq, (a, b)), dim + 1)
    best = apply(ops.eq, (counts, amax(counts, dim, True)))
    top = _top(input._dtype)
    values = amin(apply(ops.where, (best, input, top)), dim, True)
    same = apply(ops.eq, (input, values))
    size = input._shape[dim]
    turned = argmax(apply(ops.flip, (same.to(int64), (dim,))), dim, True)
    at = size - 1 - turned
    return Mode((values, at) if keepdim else (squeeze(values, dim), squeeze(at, dim)))


def _top(dtype: DType) -> Any:
    """The largest value."""
    if dtype.kind in ("bool", "float"):
        return True if dtype.kind == "bool" else math.inf
    return 2 ** (8 * dtype.itemsize - (dtype.kind == "int")) - 1


def _spread(record: OpDef, name: str) -> Callable:
    def function(
        input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
        correction: Any = None, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        if isinstance(dim, bool):  # var(input, unbiased)
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        if not input._dtype.is_inexact:
            raise RuntimeError("std and var only support floating point and complex dtypes")
        return finish(apply(record, (input, _dims(dim), correction, bool(keepdim))), out)

    function.__name__ = name
    return function


var, std = _spread(ops.var, "var"), _spread(ops.std, "std")


def var_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
             correction: Any = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    return (var(input, dim, unbiased, keepdim, correction=correction),
            mean(input, None if isinstance(dim, bool) else dim, keepdim))  # fmt: skip


def std_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
             correction: Any = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    return (std(input, dim, unbiased, keepdim, correction=correction),
            mean(input, None if isinstance(dim, bool) else dim, keepdim))  # fmt: skip


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return apply(ops.logsumexp, (input, _dims(dim), bool(keepdim)))


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    return apply(ops.count_nonzero, (input, _dims(dim)))


def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False,
    out: Tensor | None = None, dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    if p is None or p == "fro":
        p = 2.0
    if isinstance(p, str):
        raise NotImplementedError(f"norm: p={p!r} is not supported")
    return vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *,
    dtype: DType | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    x = cast_to(x, dtype)
    if not x._dtype.is_inexact:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {x._dtype.scalar_name}"
        )
    label = "LinalgVectorNormBackward0"
    return finish(apply(ops.norm, (x, float(ord), _dims(dim), bool(keepdim)), label=label), out)


# Scans -------------------------------------------------------------------------------------


def _scan(name: str) -> Callable:
    def function(
        input: Tensor, dim: int, *, dtype: DType | None = None, out: Tensor | None = None
    ) -> Tensor:
        dtype = int64 if dtype is None and input._dtype.is_integral else dtype
        if dtype is bool_:
            raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
        x = cast_to(input, dtype)
        of_pairs = name == "cumprod" and x._dtype.is_complex
        result = running_product(x, dim) if of_pairs else apply(getattr(ops, name), (x, dim))
        return finish(cast_to(result, dtype), out)  # whole numbers are added in int64

    function.__name__ = name
    return function


cumsum, cumprod = _scan("cumsum"), _scan("cumprod")


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    return apply(ops.logcumsumexp, (input, dim))


def cummax(input: Tensor, dim: int) -> Any:
    return _cum_extreme(input, dim, ops.scan_argmax, CumMax)


def cummin(input: Tensor, dim: int) -> Any:
    return _cum_extreme(input, dim, ops.scan_argmin, CumMin)


def _cum_extreme(input: Tensor, dim: int, record: OpDef, pair: type) -> Any:
    if not input.dim():
        return pair((input.clone(), brought(tensor_of(0), input)))
    at = apply(record, (input, dim))
    return pair((apply(ops.gather, (input, dim, at)), at))


def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Tensor:
    if not input.dim():
        raise RuntimeError("diff expects input to be at least one-dimensional")
    dim = wrap_dim(dim, input.dim())
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:  # without what comes before and behind, as in PyTorch
        return input.clone()
    parts = [p for p in (prepend, input, append) if p is not None]
    if len(parts) > 1:
        input = apply(ops.cat, (parts, dim))
    step = ops.logical_xor if input._dtype is bool_ else ops.sub
    for _ in range(n):
        size = input._shape[dim]
        if not size:
            return input
        after, before = narrow(input, dim, 1, size - 1), narrow(input, dim, 0, size - 1)
        input = apply(step, (after, before))
    return input


def softmax(input: Tensor, dim: int, dtype: DType | None = None, *, _stacklevel: int = 3) -> Tensor:
    return apply(ops.softmax, (cast_to(input, dtype), dim))


def log_softmax(
    input: Tensor, dim: int, dtype: DType | None = None, *, _stacklevel: int = 3
) -> Tensor:
    return apply(ops.log_softmax, (cast_to(input, dtype), dim))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    return bool(all(isclose(input, other, rtol, atol, equal_nan)).item())


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    if input._dtype is not other._dtype:
        raise RuntimeError(f"{input._dtype.scalar_name} did not match {other._dtype.scalar_name}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    if input._dtype.is_inexact:
        return apply(ops.isclose, (input, other, float(rtol), float(atol), bool(equal_nan)))
    same = apply(ops.eq, (input, other))
    if not rtol and not atol:
        return same
    near = apply(ops.isclose, (cast_to(input, Defaults.dtype), cast_to(other, Defaults.dtype),
                               float(rtol), float(atol), False))  # fmt: skip
    return apply(ops.logical_or, (same, near))


def equal(input: Tensor, other: Tensor) -> bool:
    if input._shape != other._shape:
        return False
    return bool(all(apply(ops.eq, (input, other))).item())


FUNCTIONS: dict[str, Callable] = by_name(
    sum, nansum, nanmean, mean, prod, amax, amin, aminmax, any, all, argmax, argmin, max, min,
    mode, var, std, var_mean, std_mean, logsumexp, count_nonzero, cumsum, cumprod, logcumsumexp,
    cummax, cummin, diff, softmax, log_softmax, allclose, isclose, equal,
)  # fmt: skip
METHODS = dict(FUNCTIONS)
METHODS["cumsum_"], METHODS["cumprod_"] = in_place_form(cumsum), in_place_form(cumprod)
