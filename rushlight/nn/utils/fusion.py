"""A normalization in evaluation, taken into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

Tensor = torch.Tensor


def fused(
    weight: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, mean: Tensor, dim: int
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a layer followed by (x - mean) * scale + shift."""
    bias = torch.zeros_like(mean) if bias is None else bias
    shape = [1] * weight.dim()
    shape[dim] = -1
    new_weight = (weight * scale.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * scale + shift).to(bias.dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.detach(), bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of one convolution that does both."""
    scale = torch.rsqrt(bn_rv + bn_eps)
    scale = scale if bn_w is None else scale * bn_w
    shift = torch.zeros_like(bn_rm) if bn_b is None else bn_b
    return fused(conv_w, conv_b, scale, shift, bn_rm, dim=1 if transpose else 0)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return one convolution that does both; both must be in evaluation mode.

    Example:
        >>> conv, bn = torch.nn.Conv2d(1, 2, 1).eval(), torch.nn.BatchNorm2d(2).eval()
        >>> x = torch.ones(1, 1, 1, 1)
        >>> torch.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
        True
    """
    check_evaluation(conv, bn)
    both = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    both.weight, both.bias = fuse_conv_bn_weights(
        both.weight,
        both.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return both


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of one Linear that does both."""
    return fused(linear_w, linear_b, bn_w * torch.rsqrt(bn_rv + bn_eps), bn_b, bn_rm, dim=0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return one Linear that does both; both must be in evaluation mode.

    Example:
        >>> linear, bn = torch.nn.Linear(1, 2).eval(), torch.nn.BatchNorm1d(2).eval()
        >>> x = torch.ones(1, 1)
        >>> torch.allclose(fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)))
        True
    """
    check_evaluation(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    both = copy.deepcopy(linear)
    both.weight, both.bias = fuse_linear_bn_weights(
        both.weight, both.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return both


def check_evaluation(*modules: Module) -> None:
    """Raise for modules in training: their statistics still change."""
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")
