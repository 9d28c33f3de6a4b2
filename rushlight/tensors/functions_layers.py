"""torch.layer_norm and others of torch.nn.functional, in the order of arguments of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.tensors import functional_act, functional_embedding
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """nn.functional.layer_norm; `cudnn_enable` changes nothing."""
    return functional_act.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """nn.functional.group_norm; `cudnn_enabled` changes nothing."""
    return functional_act.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """nn.functional.batch_norm; `cudnn_enabled` changes nothing."""
    return functional_act.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.dropout."""
    return functional_act.dropout(input, p, train)


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """nn.functional.embedding, the table first."""
    padding = None if padding_idx < 0 else padding_idx
    return functional_embedding.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


FUNCTIONS: dict[str, Callable[..., Any]] = by_name(
    layer_norm, group_norm, batch_norm, dropout, embedding
)
METHODS: dict[str, Callable[..., Any]] = {}
