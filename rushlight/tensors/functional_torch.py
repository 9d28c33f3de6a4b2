"""Functions of nn.functional that are also functions of torch, with the arguments they have there,
and in-place methods that are functions too (`torch.relu_(x)`).

Losses take `reduction` as a number (0 none, 1 mean, 2 sum), as PyTorch's own layers give it to
torch's functions; a word is taken too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.tensors import (
    functional_act,
    functional_embedding,
    functional_image,
    functional_loss,
    functional_more,
    functional_norm,
    functional_sample,
)
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")
# Those that exist for tensors as methods, and as functions of torch.
IN_PLACE = """abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin
asinh atan atanh ceil clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad detach erf erfc
exp exp2 expm1 fill fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit nan_to_num
neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc
xlogy""".split()


def reduction_word(reduction: Any) -> str:
    """The word of nn.functional for a reduction."""
    if isinstance(reduction, str):
        return reduction
    if reduction not in (0, 1, 2):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]


def kl_div(
    input: Tensor, target: Tensor, reduction: Any = 1, *, log_target: bool = False
) -> Tensor:
    """nn.functional.kl_div."""
    word = reduction_word(reduction)
    return functional_loss.kl_div(input, target, reduction=word, log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Any = 1
) -> Tensor:
    """nn.functional.margin_ranking_loss."""
    word = reduction_word(reduction)
    return functional_loss.margin_ranking_loss(input1, input2, target, margin, reduction=word)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Any = 1
) -> Tensor:
    """nn.functional.cosine_embedding_loss."""
    word = reduction_word(reduction)
    return functional_loss.cosine_embedding_loss(input1, input2, target, margin, reduction=word)


def hinge_embedding_loss(
    self: Tensor, target: Tensor, margin: float = 1.0, reduction: Any = 1
) -> Tensor:
    """nn.functional.hinge_embedding_loss."""
    word = reduction_word(reduction)
    return functional_loss.hinge_embedding_loss(self, target, margin, reduction=word)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: Any = 1,
) -> Tensor:  # fmt: skip
    """nn.functional.triplet_margin_loss."""
    word = reduction_word(reduction)
    return functional_loss.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=word
    )


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: Any
) -> Tensor:
    """nn.functional.poisson_nll_loss."""
    word = reduction_word(reduction)
    return functional_loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=word)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: Any = 1, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """nn.functional.ctc_loss."""
    word = reduction_word(reduction)
    return functional_more.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, word, zero_infinity
    )


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: Any = 1,
) -> Tensor:  # fmt: skip
    """nn.functional.binary_cross_entropy_with_logits."""
    return functional_loss.binary_cross_entropy_with_logits(
        input, target, weight, reduction=reduction_word(reduction), pos_weight=pos_weight
    )


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """nn.functional.instance_norm; `cudnn_enabled` changes nothing."""
    return functional_norm.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.alpha_dropout."""
    return functional_more.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.feature_alpha_dropout."""
    return functional_more.feature_alpha_dropout(input, p, train)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Any:
    """nn.functional.adaptive_max_pool1d, with the indices."""
    return functional_sample.adaptive_max_pool1d(input, output_size, True)


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """nn.functional.affine_grid."""
    return functional_sample.affine_grid(theta, size, align_corners)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """nn.functional.max_pool1d, with the indices."""
    return functional_image.max_pool1d(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True
    )


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """nn.functional.embedding_bag, the table first; mode 0 sum, 1 mean, 2 max.

    Gives a tuple whose first entry is the result; the others, which PyTorch keeps for its
    backward pass, are empty.
    """
    word = ("sum", "mean", "max")[mode]
    found = functional_embedding.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=word, sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )  # fmt: skip
    empty = indices[:0]
    return found, empty, empty, empty


def in_place_function(name: str) -> Callable[..., Any]:
    """torch.relu_(x) is x.relu_()."""

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`input.{name}(...)`."
    return call


FUNCTIONS: dict[str, Callable[..., Any]] = by_name(
    kl_div, margin_ranking_loss, cosine_embedding_loss, hinge_embedding_loss, triplet_margin_loss,
    poisson_nll_loss, ctc_loss, binary_cross_entropy_with_logits, instance_norm, alpha_dropout,
    feature_alpha_dropout, adaptive_max_pool1d, affine_grid_generator, max_pool1d_with_indices,
    embedding_bag, functional_image.conv1d, functional_image.conv2d, functional_image.conv3d,
    functional_image.conv_transpose1d, functional_image.conv_transpose2d,
    functional_image.conv_transpose3d, functional_image.avg_pool1d,
    functional_image.adaptive_avg_pool1d, functional_image.max_pool1d, functional_image.max_pool2d,
    functional_image.max_pool3d, functional_image.pixel_unshuffle, functional_act.bilinear,
    functional_act.hardshrink, functional_act.threshold, functional_more.pdist,
)  # fmt: skip
FUNCTIONS.update({f"{name}_": in_place_function(f"{name}_") for name in IN_PLACE})
METHODS: dict[str, Callable[..., Any]] = {
    "hardshrink": functional_act.hardshrink,
    "prelu": functional_act.prelu,
}
