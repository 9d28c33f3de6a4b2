"""nn.functional: activations, dropout, linear maps, embedding, normalization."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import bool_, float32, float64, int32, int64
from rushlight.ir.node import scalar_node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.apply import apply
from rushlight.tensors.functions_math import clamp
from rushlight.tensors.functions_reduce import log_softmax as _log_softmax
from rushlight.tensors.functions_reduce import softmax as _softmax
from rushlight.tensors.functions_reduce import vector_norm
from rushlight.tensors.functions_shape import broadcast_tensors, one_hot
from rushlight.tensors.functions_slices import chunk
from rushlight.tensors.functions_view import reshape
from rushlight.tensors.indexing import check_index
from rushlight.tensors.inplace import NAMES, check_inplace, store, write_out
from rushlight.tensors.random import uniform_node
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name


def _unary(name: str, *defaults: tuple[str, Any], inplace: bool = True) -> Callable:
    """An activation of one record with number parameters; `inplace=True` writes the input."""
    names = [n for n, _ in defaults]

    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        write = kwargs.pop("inplace", False)
        if len(args) > len(names):
            write = args[len(names)]
            args = args[: len(names)]
        given = dict(zip(names, args, strict=False)) | kwargs
        wrong = [key for key in given if key not in names]
        if wrong:
            raise TypeError(f"{name}() got an unexpected keyword argument '{wrong[0]}'")
        record: OpDef = getattr(ops, name)
        result = apply(record, (input, *[given.get(n, default) for n, default in defaults]))
        if write:
            check_inplace(input)
            return store(input, result)
        return result

    function.__name__ = name
    function.__doc__ = f"The activation {name}."
    return function


relu, silu, mish, relu6 = (_unary(n) for n in ("relu", "silu", "mish", "relu6"))
hardswish, hardsigmoid, selu = (_unary(n) for n in ("hardswish", "hardsigmoid", "selu"))
elu, celu = _unary("elu", ("alpha", 1.0)), _unary("celu", ("alpha", 1.0))
leaky_relu = _unary("leaky_relu", ("negative_slope", 0.01))
hardtanh = _unary("hardtanh", ("min_val", -1.0), ("max_val", 1.0))
softplus = _unary("softplus", ("beta", 1.0), ("threshold", 20.0))
threshold = _unary("threshold", ("threshold", 0.0), ("value", 0.0))
hardshrink, softshrink = _unary("hardshrink", ("lambd", 0.5)), _unary("softshrink", ("lambd", 0.5))
softsign, tanhshrink, logsigmoid = _unary("softsign"), _unary("tanhshrink"), _unary("log_sigmoid")


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return apply(ops.gelu, (input, approximate))


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
    if weight.numel() == 1:
        weight = reshape(weight, ())
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
    return _softmax(input, _soft_dim("softmax", dim, input.dim()), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    return _log_softmax(input, _soft_dim("log_softmax", dim, input.dim()), dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10,
                   dim: int = -1) -> Tensor:  # fmt: skip
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
    return _dropout(input, p, training, inplace, _channels(input, 3))


feature_dropout = dropout2d


# Linear maps -------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias."""
    if input._dtype is not weight._dtype:
        if bias is None:
            raise RuntimeError(
                "expected m1 and m2 to have the same dtype, but got: "
                f"{cpp_name(input._dtype)} != {cpp_name(weight._dtype)}"
            )
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {NAMES[input._dtype.name]} and "
            f"{NAMES[weight._dtype.name]}"
        )
    label = (
        "ViewBackward0"
        if input.dim() > 2
        else "AddmmBackward0"
        if bias is not None
        else "MmBackward0"
    )
    return apply(ops.linear, (input, weight, bias), label=label)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    mixed = input1.unsqueeze(-2).unsqueeze(-2) @ weight  # (..., out, 1, in2)
    result = (mixed.squeeze(-2) * input2.unsqueeze(-2)).sum(-1)
    return result if bias is None else result + bias


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "embedding: max_norm, scale_grad_by_freq and sparse are not supported"
        )
    if input._dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got torch.{NAMES[input._dtype.name]}Tensor instead (while checking "
            "arguments for embedding)"
        )
    rows = weight._shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    skip = -1 if padding_idx is None else padding_idx % rows
    check_index(input, rows, "index out of range in self", IndexError)
    index = input if input._dtype is int64 else input.to(int64)
    return apply(ops.embedding, (weight, index, skip))


# Normalization -----------------------------------------------------------------------------


def _normalized(name: str, input: Tensor, shape: Sequence[int], weight: Tensor | None) -> int:
    shape = tuple(shape)
    if input._shape[input.dim() - len(shape) :] != shape:
        given = "".join(f", {n}" for n in shape)[2:]
        raise RuntimeError(
            f"Given normalized_shape=[{given}], expected input with shape [*, {given}], but got "
            f"input of size{list(input._shape)}"
        )
    return len(shape)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    count = _normalized("layer_norm", input, normalized_shape, weight)
    label = "NativeLayerNormBackward0"
    return apply(ops.layer_norm, (input, weight, bias, count, float(eps)), label=label)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    count = _normalized("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = {"float64": 2.220446049250313e-16}.get(input._dtype.name, 1.1920928955078125e-07)
    return apply(ops.rms_norm, (input, weight, count, float(eps)))


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    if input._shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input._shape)} and num_groups={num_groups}"
        )
    label = "NativeGroupNormBackward0"
    return apply(ops.group_norm, (input, num_groups, weight, bias, float(eps)), label=label)


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Per-channel normalization; in training the running statistics are updated in place."""
    if not training:
        args = (input, running_mean, running_var, weight, bias, float(eps))
        return apply(ops.batch_norm_inference, args, label="NativeBatchNormBackward0")
    count = input.numel() // max(input._shape[1], 1)
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    result = apply(
        ops.batch_norm, (input, weight, bias, float(eps)), label="NativeBatchNormBackward0"
    )
    if running_mean is not None:
        _update_statistics(input.detach(), running_mean, running_var, momentum, count)
    return result


def _update_statistics(
    input: Tensor, mean: Tensor, var: Tensor | None, momentum: float, count: int
) -> None:
    dims = [d for d in range(input.dim()) if d != 1]
    wide = input if input._dtype is mean._dtype else input.to(mean._dtype)
    store(mean, mean.detach() * (1 - momentum) + wide.mean(dims) * momentum)
    if var is not None:
        spread = wide.var(dims, correction=1)
        store(var, var.detach() * (1 - momentum) + spread * momentum)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    channels = input._shape[1]
    if running_mean is not None:
        dims = list(range(2, input.dim()))
        means, spreads = input.detach().mean(dims), input.detach().var(dims)
        store(running_mean, running_mean.detach() * (1 - momentum) + means.mean(0) * momentum)
        store(running_var, running_var.detach() * (1 - momentum) + spreads.mean(0) * momentum)
    return group_norm(input, channels, weight, bias, eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    channels, total = input._shape[1], None
    squares = input * input
    for shift in range(-(size // 2), (size + 1) // 2):
        low, high = max(shift, 0), min(channels + shift, channels)
        part = squares[:, low:high]
        lead, tail = max(-shift, 0), max(shift, 0)
        shape = input._shape
        pieces = [input.new_zeros((shape[0], lead, *shape[2:])), part,
                  input.new_zeros((shape[0], tail, *shape[2:]))]  # fmt: skip
        part = apply(ops.cat, ([p for p in pieces if p._shape[1]], 1))
        total = part if total is None else total + part
    return input / (total * (alpha / size) + k) ** beta


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    size = vector_norm(input, p, dim, True)
    result = input / clamp(size, min=eps).expand(input._shape)
    return result if out is None else write_out(out, result)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    x1, x2 = broadcast_tensors(x1, x2)
    a = clamp(vector_norm(x1, 2, dim, True), min=eps)
    b = clamp(vector_norm(x2, 2, dim, True), min=eps)
    return ((x1 / a) * (x2 / b)).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


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


__all__ = [
    "batch_norm", "bilinear", "celu", "cosine_similarity", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "elu", "embedding", "feature_dropout", "gelu", "glu", "group_norm",
    "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "instance_norm",
    "layer_norm", "leaky_relu", "linear", "local_response_norm", "log_softmax", "logsigmoid",
    "mish", "normalize", "one_hot", "pairwise_distance", "prelu", "relu", "relu6", "rms_norm",
    "selu", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip
