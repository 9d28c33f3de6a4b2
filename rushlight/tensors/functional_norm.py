"""nn.functional: normalization of batches, layers, groups and vectors, and distances of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.tensors.apply import apply
from rushlight.tensors.autocast import STATE
from rushlight.tensors.autocast_rules import in_float32
from rushlight.tensors.forms import linked
from rushlight.tensors.functions_math import clamp
from rushlight.tensors.functions_reduce import vector_norm
from rushlight.tensors.functions_shape import broadcast_tensors
from rushlight.tensors.inplace import store
from rushlight.tensors.out import write_out
from rushlight.tensors.tensor import Tensor


def _normalized(name: str, input: Tensor, shape: Sequence[int], weight: Tensor | None) -> int:
    shape = tuple(shape)
    if input._shape[input.dim() - len(shape) :] != shape:
        given = "".join(f", {n}" for n in shape)[2:]
        raise RuntimeError(
            f"Given normalized_shape=[{given}], expected input with shape [*, {given}], but got "
            f"input of size{list(input._shape)}"
        )
    return len(shape)


def _norm(op: Any, args: tuple, label: str = "", strict: bool = True) -> Tensor:
    """A bfloat16 or float16 input beside float32 parameters: computed wide, the input's dtype.

    strict: parameters of another dtype raise, as in PyTorch.
    """
    wanted = (args[0]._dtype, args[0]._dtype.compute)
    if strict and any(isinstance(x, Tensor) and x._dtype not in wanted for x in args):
        raise RuntimeError(
            f"mixed dtype (CPU): expect parameter to have scalar type of {wanted[1].scalar_name}"
        )
    input, result = args[0], apply(op, args, label=label)
    if result._dtype is input._dtype:
        return result
    return apply(ops.cast, (result, input._dtype), label=label)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    count = _normalized("layer_norm", input, normalized_shape, weight)
    label = "NativeLayerNormBackward0"
    return _norm(ops.layer_norm, (input, weight, bias, count, float(eps)), label)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    count = _normalized("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = {"float64": 2.220446049250313e-16}.get(input._dtype.name, 1.1920928955078125e-07)
    return _norm(ops.rms_norm, (input, weight, count, float(eps)), strict=False)


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
    return _norm(ops.group_norm, (input, num_groups, weight, bias, float(eps)), label)


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Per-channel normalization; in training the running statistics are updated in place."""
    channels = input._shape[1] if input.dim() > 1 else 0
    named = zip(("running_mean", "running_var", "weight", "bias"),
                (running_mean, running_var, weight, bias), strict=True)  # fmt: skip
    for name, given in named:
        if given is not None and given.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {given.numel()}")
    if eps < 0 or (training and eps == 0):
        rule = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {rule}, but got {eps}")
    if not input.numel():
        empty = input.clone()
        return linked(linked(empty, weight), bias) if weight is not None and bias is not None else (
            empty)  # fmt: skip
    if not training:
        args = (input, running_mean, running_var, weight, bias, float(eps))
        return _norm(ops.batch_norm_inference, args, "NativeBatchNormBackward0")
    count = input.numel() // max(input._shape[1], 1)
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    result = _norm(ops.batch_norm, (input, weight, bias, float(eps)), "NativeBatchNormBackward0")
    if running_mean is not None and count:
        _update_statistics(input, running_mean, running_var, momentum)
    return result


def _update_statistics(input: Tensor, mean: Tensor, var: Tensor | None, momentum: float) -> None:
    values = (input, 1 - momentum, momentum)
    store(mean, apply(ops.batch_norm_running_mean, (mean, *values)))
    if var is not None:
        store(var, apply(ops.batch_norm_running_var, (var, *values)))


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
    if not input.numel():
        return input
    channels, total = input._shape[1], None
    squares = input * input
    if STATE.dtype is not None and input.dim() > 3:  # PyTorch pools these with avg_pool3d
        squares = in_float32(squares)
    for shift in range(-(size // 2), (size + 1) // 2):
        low, high = max(shift, 0), min(channels + shift, channels)
        part = squares[:, low:high]
        lead, tail = max(-shift, 0), max(shift, 0)
        shape = input._shape
        pieces = [squares.new_zeros((shape[0], lead, *shape[2:])), part,
                  squares.new_zeros((shape[0], tail, *shape[2:]))]  # fmt: skip
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
    if x1._dtype is x2._dtype and x1._dtype is not x1._dtype.compute:
        wide = x1._dtype.compute  # the norm of float16 values need not be one
        return cosine_similarity(x1.to(wide), x2.to(wide), dim, eps).to(x1._dtype)
    a = clamp(vector_norm(x1, 2, dim, True), min=eps)
    b = clamp(vector_norm(x2, 2, dim, True), min=eps)
    return ((x1 / a) * (x2 / b)).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
