"""nn.functional: activations, dropout, linear maps, masked softmax."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import PYTHON_TYPES, bool_, float32, float64
from rushlight.ir.node import scalar_node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.apply import apply, product_operands
from rushlight.tensors.autocast_rules import follow
from rushlight.tensors.functional_norm import (
    batch_norm,
    cosine_similarity,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    pairwise_distance,
    rms_norm,
)
from rushlight.tensors.functions_reduce import log_softmax as _log_softmax
from rushlight.tensors.functions_reduce import softmax as _softmax
from rushlight.tensors.functions_shape import one_hot
from rushlight.tensors.functions_slices import chunk
from rushlight.tensors.functions_view import alias, reshape
from rushlight.tensors.info import finfo
from rushlight.tensors.inplace import check_inplace, store
from rushlight.tensors.numbers import check_number
from rushlight.tensors.operands import need_tensor
from rushlight.tensors.out import write_out
from rushlight.tensors.random import uniform_node
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name


def _unary(
    name: str, *defaults: tuple[str, Any], check: Callable[..., None] | None = None
) -> Callable:
    """An activation of one record with number parameters; `inplace=True` writes the input."""
    names = [n for n, _ in defaults]

    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        write, out = kwargs.pop("inplace", False), kwargs.pop("out", None)
        if len(args) > len(names):
            write = args[len(names)]
            args = args[: len(names)]
        given = dict(zip(names, args, strict=False)) | kwargs
        wrong = [key for key in given if key not in names]
        if wrong:
            raise TypeError(f"{name}() got an unexpected keyword argument '{wrong[0]}'")
        need_tensor(name, "input", 1, input)
        record: OpDef = getattr(ops, name)
        numbers = [given.get(n, default) for n, default in defaults]
        if check is not None:
            check(input, *numbers)
        result = apply(record, (input, *numbers))
        if out is not None:
            return write_out(out, result)
        if write:
            check_inplace(input)
            return store(input, result)
        return result

    function.__name__ = name
    function.__doc__ = f"The activation {name}."
    function.__signature__ = _signature([*defaults, ("inplace", False)])  # type: ignore[attr-defined]
    return function


def _signature(settings: list[tuple[str, Any]]) -> inspect.Signature:
    """`(input, setting=default, ...)`, as PyTorch's functions have it."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = [inspect.Parameter(name, kind, default=default) for name, default in settings]
    return inspect.Signature([inspect.Parameter("input", kind), *named])


def _in_order(input: Tensor, low: float, high: float) -> None:
    if low > high:
        raise ValueError("min_val cannot be greater than max_val")


def _numbers(input: Tensor, threshold: float, value: float) -> None:
    for position, (name, number) in enumerate((("threshold", threshold), ("value", value)), 2):
        if isinstance(number, Tensor) and number.dim():
            raise TypeError(
                f"threshold(): argument '{name}' (position {position}) must be Number, not Tensor"
            )
        if not isinstance(number, Tensor):
            check_number(number, input._dtype)


def _bounds(input: Tensor, low: float, high: float) -> None:
    _in_order(input, low, high)
    for number in (low, high):
        check_number(number, input._dtype)


def _not_negative(input: Tensor, lambd: float) -> None:
    top = float(finfo(input._dtype).max) if input._dtype.kind == "float" else math.inf
    if not 0 <= lambd <= top:
        raise RuntimeError(
            f"lambda must be in range [0, {top:.6g}] for input dtype "
            f"{input._dtype.scalar_name}, but found {lambd:g}"
        )


relu, silu, mish, relu6 = (_unary(n) for n in ("relu", "silu", "mish", "relu6"))
hardswish, hardsigmoid, selu = (_unary(n) for n in ("hardswish", "hardsigmoid", "selu"))
elu, celu = _unary("elu", ("alpha", 1.0)), _unary("celu", ("alpha", 1.0))
leaky_relu = _unary("leaky_relu", ("negative_slope", 0.01))
hardtanh = _unary("hardtanh", ("min_val", -1.0), ("max_val", 1.0), check=_bounds)
softplus = _unary("softplus", ("beta", 1.0), ("threshold", 20.0))
threshold = _unary("threshold", ("threshold", 0.0), ("value", 0.0), check=_numbers)
hardshrink = _unary("hardshrink", ("lambd", 0.5))
softshrink = _unary("softshrink", ("lambd", 0.5), check=_not_negative)
softsign, tanhshrink, logsigmoid = _unary("softsign"), _unary("tanhshrink"), _unary("log_sigmoid")


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    result = apply(ops.gelu, (input, approximate))
    return result if out is None else write_out(out, result)


def sigmoid(input: Tensor) -> Tensor:
    return apply(ops.sigmoid, (input,))


def tanh(input: Tensor) -> Tensor:
    return apply(ops.tanh, (input,))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    if not input.dim():
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.size(dim) % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size "
            f"{input.size(dim)}"
        )
    a, b = chunk(input, 2, dim)
    return a * sigmoid(b)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        )
    if weight._dtype is not input._dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input._dtype.scalar_name} and "
            f"{weight._dtype.scalar_name}"
        )
    if weight.numel() == 1:
        weight = reshape(weight, ())
    elif not input.dim():
        raise RuntimeError("Not allow zero-dim input tensor.")
    elif (have := input._shape[1] if input.dim() > 1 else 1) != weight.numel():
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {have}."
        )
    else:
        shape = [1] * input.dim()
        shape[1 if input.dim() > 1 else 0] = weight.numel()
        weight = reshape(weight, shape)
    return apply(ops.where, (input > 0, input, weight * input))


def _soft_dim(name: str, dim: int | None, ndim: int) -> int:
    """The dim that old PyTorch guessed."""
    return dim if dim is not None else (0 if ndim in (0, 1, 3) else 1)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    return _softmax(input, _soft_dim("softmax", dim, input.dim()), PYTHON_TYPES.get(dtype, dtype))


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    dim = _soft_dim("log_softmax", dim, input.dim())
    return _log_softmax(input, dim, PYTHON_TYPES.get(dtype, dtype))


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10,
                   dim: int = -1) -> Tensor:  # fmt: skip
    if logits._dtype.kind != "float":
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {logits._dtype.scalar_name}"
        )
    u = new_tensor(uniform_node(logits._shape, logits._dtype, None))
    noise = -(-(u.clamp(min=1e-20)).log()).log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    return soft.detach().zero_().scatter(dim, index, 1.0) - soft.detach() + soft


# Dropout -----------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _dropout(input, p, training, inplace, input._shape)


def _dropout(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    wide = float64 if input._dtype is float64 else float32
    if p == 1.0:
        result = input * 0.0
    else:
        keep = ops.ge.node(uniform_node(shape, wide, None), scalar_node(float(p), wide))
        scaled = input * (1.0 / (1.0 - p))
        result = apply(ops.where, (new_tensor(keep), scaled, 0.0), label="DropoutBackward0")
    if inplace:
        check_inplace(input)
        return store(input, result)
    return result


def _channels(input: Tensor, spatial: int) -> tuple:
    lead = 2 if input.dim() == spatial + 2 else 1
    return (*input._shape[:lead], *(1,) * (input.dim() - lead))


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    return _dropout(input, p, training, inplace, _channels(input, 1))


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    return _dropout(input, p, training, inplace, _channels(input, 2))


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    whole = p == 0.0 or not training
    x = alias(input) if whole and input.dim() == 4 else input  # PyTorch's is a view then
    return _dropout(x, p, training, inplace, _channels(input, 3))


feature_dropout = dropout2d


# Linear maps -------------------------------------------------------------------------------


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """input @ weight.T + bias."""
    input, weight, bias = product_operands(input, weight, bias)
    if input._dtype is not weight._dtype:
        if bias is None:
            raise RuntimeError(
                "expected m1 and m2 to have the same dtype, but got: "
                f"{cpp_name(input._dtype)} != {cpp_name(weight._dtype)}"
            )
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {input._dtype.scalar_name} and "
            f"{weight._dtype.scalar_name}"
        )
    if bias is not None and bias._dtype is not weight._dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {bias._dtype.scalar_name} and "
            f"{weight._dtype.scalar_name}"
        )
    label = (
        "ViewBackward0"
        if input.dim() > 2
        else "AddmmBackward0"
        if bias is not None
        else "MmBackward0"
    )
    result = apply(ops.linear, (input, weight, bias), label=label)
    return result if out is None else write_out(out, result)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    named = {"input1": input1, "input2": input2, "weight": weight, "bias": bias}
    have = {name: x._dtype for name, x in named.items() if x is not None}
    if len(set(have.values())) > 1:
        shown = ", ".join(f"{name}: {cpp_name(dtype)}" for name, dtype in have.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {shown}")
    if bias is not None and bias._shape != weight._shape[:1]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {list(bias._shape)} but "
            f"expected {list(weight._shape[:1])}"
        )
    mixed = input1.unsqueeze(-2).unsqueeze(-2) @ weight  # (..., out, 1, in2)
    result = (mixed.squeeze(-2) * input2.unsqueeze(-2)).sum(-1)
    return result if bias is None else result + bias


# Attention ---------------------------------------------------------------------------------


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """softmax over the last dimension of scores that `mask` was applied to.

    A row whose mask leaves nothing to attend to gives zeros, as in PyTorch, and zero gradients:
    such scores are replaced before the softmax, so no NaN arises that could spread.
    """
    if mask is None:
        return _softmax(scores, -1)
    open_ = mask if mask._dtype is bool_ else mask != -math.inf
    dead = ~open_.any(-1, keepdim=True)
    weights = _softmax(apply(ops.where, (dead, 0.0, scores)), -1)
    return apply(ops.where, (dead, 0.0, weights))


# Autocast casts their operands.
prelu = follow(prelu, "prelu")
__all__ = [
    "batch_norm", "bilinear", "celu", "cosine_similarity", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "elu", "feature_dropout", "gelu", "glu", "group_norm",
    "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "instance_norm",
    "layer_norm", "leaky_relu", "linear", "local_response_norm", "log_softmax", "logsigmoid",
    "mish", "normalize", "one_hot", "pairwise_distance", "prelu", "relu", "relu6", "rms_norm",
    "selu", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip
