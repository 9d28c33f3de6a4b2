"""LinearCrossEntropyLoss: a classifier's last layer and its loss in one module."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.losses import LinearCrossEntropyOptions, linear_cross_entropy
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.loss import _WeightedLoss
from rushlight.nn.parameter import Parameter


def _one_of(names: tuple[str, str], first: int | None, second: int | None) -> int:
    """Two spellings of one argument."""
    if (first is None) == (second is None):
        how = "are both given" if first is not None else "are both missing"
        raise TypeError(
            f"LinearCrossEntropyLoss.__init__(): '{names[0]}' and its other name '{names[1]}' "
            f"{how}; give one"
        )
    return first if first is not None else second  # type: ignore[return-value]


class LinearCrossEntropyLoss(_WeightedLoss):
    """`cross_entropy(linear(input), target)` that never holds all the logits.

    `hidden_size` and `vocab_size` are other names of `in_features` and `num_classes`. `weight` of
    one dimension holds class weights; of two, (num_classes, in_features), it becomes the weight of
    the linear layer itself: a tied embedding gets the gradients of both uses.

    Example:
        >>> loss = LinearCrossEntropyLoss(4, 10)
        >>> loss(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64))
        tensor(2.3026, grad_fn=<_FusedBackward>)
    """

    def __init__(
        self,
        in_features: int | None = None,
        num_classes: int | None = None,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: torch.Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
        hidden_size: int | None = None,
        vocab_size: int | None = None,
        z_loss_coef: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        features = _one_of(("in_features", "hidden_size"), in_features, hidden_size)
        classes = _one_of(("num_classes", "vocab_size"), num_classes, vocab_size)
        rows = math.prod(out_features, start=classes)
        tied = weight if weight is not None and weight.dim() == 2 else None
        if tied is not None and tuple(tied.shape) != (rows, features):
            raise RuntimeError(
                f"expected a tied weight of shape {(rows, features)}, got {tuple(tied.shape)}"
            )
        weight = weight if tied is None else None
        if weight is not None and tuple(weight.shape) != (classes,):
            raise RuntimeError(
                f"expected weight shape to be {(classes,)}, got {tuple(weight.shape)}"
            )
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes, self.out_features = classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.z_loss_coef, self.softcap, self.options = z_loss_coef, softcap, options
        if tied is None:
            self.linear = Linear(features, rows, bias=bias, device=device, dtype=dtype)
        else:
            self.linear = Linear(features, rows, bias=bias, device=tied.device, dtype=tied.dtype)
            self.linear.weight = tied if isinstance(tied, Parameter) else Parameter(tied)

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        places = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return linear_cross_entropy(
            input,
            self.linear.weight.reshape((*places, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(places),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
            z_loss_coef=self.z_loss_coef,
            softcap=self.softcap,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
