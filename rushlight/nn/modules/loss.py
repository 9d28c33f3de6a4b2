"""Losses as modules: each keeps the settings of one function of `nn.functional`.

The flags `size_average` and `reduce` are PyTorch's old spelling of `reduction`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.distance import PairwiseDistance
from rushlight.nn.modules.function_layer import FunctionLayer, layer


def old_reduction(size_average: bool | None, reduce: bool | None, warn: bool = True) -> str:
    """Translate the two old flags and warn about them."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    reduction = "none" if not reduce else "mean" if size_average else "sum"
    if warn:
        warnings.warn(
            "size_average and reduce args will be deprecated, "
            f"please use reduction='{reduction}' instead.",
            stacklevel=5,
        )
    return reduction


class _Loss(FunctionLayer):
    """The shared part: how the elements are reduced."""

    shown = ()
    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = reduction
        self._read_old_flags(size_average, reduce)

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        self._read_old_flags(size_average, reduce)

    def _read_old_flags(self, size_average: bool | None, reduce: bool | None) -> None:
        if size_average is not None or reduce is not None:
            self.reduction = old_reduction(size_average, reduce)

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.function(input, target, **self.given())


class _WeightedLoss(_Loss):
    """A loss with a weight per class or element, kept as a buffer."""

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)

    def __post_init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
    ) -> None:
        self._read_old_flags(size_average, reduce)
        self.register_buffer("weight", weight)

    def given(self) -> dict[str, Any]:
        """The settings, and the weight."""
        return {**super().given(), "weight": self.weight}


@layer()
class _ElementLoss(_Loss):
    """A loss of pairs of elements, with no settings but the reduction."""

    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@layer(F.l1_loss)
class L1Loss(_ElementLoss):
    """The absolute error.

    Example:
        >>> L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
        tensor(1.5000)
    """


@layer(F.mse_loss)
class MSELoss(_ElementLoss):
    """The squared error.

    Example:
        >>> MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
        tensor(2.5000)
    """


@layer(F.smooth_l1_loss)
class SmoothL1Loss(_ElementLoss):
    """The squared error divided by beta when small, else the absolute error.

    Example:
        >>> SmoothL1Loss()(torch.tensor([2.0]), torch.tensor([0.0]))
        tensor(1.5000)
    """

    beta: float = 1.0


@layer(F.huber_loss)
class HuberLoss(_Loss):
    """The squared error when small, else delta times the absolute error.

    Example:
        >>> HuberLoss()(torch.tensor([2.0]), torch.tensor([0.0]))
        tensor(1.5000)
    """

    reduction: str = "mean"
    delta: float = 1.0


@layer(F.soft_margin_loss)
class SoftMarginLoss(_ElementLoss):
    """log(1 + exp(-target * input)) for targets of 1 and -1.

    Example:
        >>> SoftMarginLoss()(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.6931)
    """


@layer(F.multilabel_margin_loss)
class MultiLabelMarginLoss(_ElementLoss):
    """The margins between the classes listed in a row, up to the first -1, and all others.

    Example:
        >>> MultiLabelMarginLoss()(torch.tensor([[0.5, 0.0]]), torch.tensor([[0, -1]]))
        tensor(0.2500)
    """


@layer(F.kl_div)
class KLDivLoss(_ElementLoss):
    """The Kullback-Leibler divergence; the input is in log space.

    Example:
        >>> KLDivLoss(reduction="sum")(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.)
    """

    log_target: bool = False


@layer(F.nll_loss)
class NLLLoss(_WeightedLoss):
    """The negative log-probability of the target class.

    Example:
        >>> NLLLoss()(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
        tensor(2.)
    """

    weight: InitVar[torch.Tensor | None] = None
    size_average: InitVar[bool | None] = None
    ignore_index: int = -100
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement and see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more "
            "details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


@layer(F.cross_entropy)
class CrossEntropyLoss(_WeightedLoss):
    """NLLLoss of log-softmax; targets are classes or probabilities.

    Example:
        >>> CrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6931)
    """

    weight: InitVar[torch.Tensor | None] = None
    size_average: InitVar[bool | None] = None
    ignore_index: int = -100
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    label_smoothing: float = 0.0


@layer()
class _PlainWeightedLoss(_WeightedLoss):
    weight: InitVar[torch.Tensor | None] = None
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@layer(F.binary_cross_entropy)
class BCELoss(_PlainWeightedLoss):
    """The cross entropy of probabilities in [0, 1].

    Example:
        >>> BCELoss()(torch.tensor([0.5]), torch.tensor([1.0]))
        tensor(0.6931)
    """


@layer(F.multilabel_soft_margin_loss)
class MultiLabelSoftMarginLoss(_PlainWeightedLoss):
    """The mean over classes of BCEWithLogitsLoss.

    Example:
        >>> MultiLabelSoftMarginLoss()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """


@layer(F.binary_cross_entropy_with_logits)
class BCEWithLogitsLoss(_PlainWeightedLoss):
    """BCELoss of the sigmoid, computed without overflow.

    Example:
        >>> BCEWithLogitsLoss()(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.6931)
    """

    pos_weight: InitVar[torch.Tensor | None] = None

    def __post_init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        pos_weight: torch.Tensor | None = None,
    ) -> None:
        super().__post_init__(weight, size_average, reduce)
        self.register_buffer("pos_weight", pos_weight)

    def given(self) -> dict[str, Any]:
        """The settings, and both weights."""
        return {**super().given(), "pos_weight": self.pos_weight}


@layer(F.multi_margin_loss)
class MultiMarginLoss(_WeightedLoss):
    """The margins between the target class and all others, to the power p (1 or 2).

    Example:
        >>> MultiMarginLoss()(torch.tensor([[0.5, 0.0]]), torch.tensor([0]))
        tensor(0.2500)
    """

    p: int = 1
    margin: float = 1.0
    weight: InitVar[torch.Tensor | None] = None
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def __post_init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
    ) -> None:
        super().__post_init__(weight, size_average, reduce)
        if self.p != 1 and self.p != 2:
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, "
                f"got {weight.dim()}D instead"
            )


@layer(F.hinge_embedding_loss)
class HingeEmbeddingLoss(_Loss):
    """A distance for targets of 1, and how far it is below the margin for targets of -1.

    Example:
        >>> HingeEmbeddingLoss()(torch.tensor([0.25]), torch.tensor([-1.0]))
        tensor(0.7500)
    """

    margin: float = 1.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@layer(F.poisson_nll_loss)
class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts; the input is the (log of the) rate.

    Example:
        >>> PoissonNLLLoss()(torch.tensor([0.0]), torch.tensor([2.0]))
        tensor(1.)
    """

    log_input: bool = True
    full: bool = False
    size_average: InitVar[bool | None] = None
    eps: float = 1e-8
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def forward(self, log_input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.poisson_nll_loss(log_input, target, **self.given())


@layer(F.gaussian_nll_loss)
class GaussianNLLLoss(_Loss):
    """The negative log likelihood of normal distributions with given mean and variance.

    Example:
        >>> GaussianNLLLoss()(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
        tensor(2.)
    """

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def forward(  # type: ignore[override]
        self, input: torch.Tensor, target: torch.Tensor, var: torch.Tensor | float
    ) -> torch.Tensor:
        return F.gaussian_nll_loss(input, target, var, **self.given())


@layer()
class _PairLoss(_Loss):
    """A loss of two inputs that a target of 1 or -1 puts together."""

    margin: float = 0.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def forward(  # type: ignore[override]
        self, input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        return self.function(input1, input2, target, **self.given())


@layer(F.cosine_embedding_loss)
class CosineEmbeddingLoss(_PairLoss):
    """1 - cos for targets of 1, and how far cos is above the margin for targets of -1.

    Example:
        >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> CosineEmbeddingLoss()(x, y, torch.tensor([1]))
        tensor(1.)
    """


@layer(F.margin_ranking_loss)
class MarginRankingLoss(_PairLoss):
    """How far input1 is from being above (target 1) or below (-1) input2 by the margin.

    Example:
        >>> MarginRankingLoss()(torch.zeros(1), torch.ones(1), torch.tensor([1.0]))
        tensor(1.)
    """


class _Triplet(_Loss):
    def forward(  # type: ignore[override]
        self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> torch.Tensor:
        return self.function(anchor, positive, negative, **self.given())


@layer(F.triplet_margin_loss)
class TripletMarginLoss(_Triplet):
    """How far the positive is from being nearer to the anchor than the negative by the margin.

    Example:
        >>> TripletMarginLoss(margin=0.5)(*torch.zeros(3, 1, 2))
        tensor(0.5000)
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        super().__post_init__(size_average, reduce)
        check_margin(type(self).__name__, self.margin)


@layer(F.triplet_margin_with_distance_loss)
class TripletMarginWithDistanceLoss(_Triplet):
    """TripletMarginLoss with a distance of one's own.

    Example:
        >>> TripletMarginWithDistanceLoss(margin=0.5)(*torch.zeros(3, 1, 2))
        tensor(0.5000)
    """

    _: KW_ONLY
    distance_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def __post_init__(self) -> None:  # type: ignore[override]
        check_margin(type(self).__name__, self.margin)
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()


def check_margin(name: str, margin: float) -> None:
    """Raise for a margin that no distances could keep."""
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


@layer(F.ctc_loss)
class CTCLoss(_Loss):
    """The negative log-probability of label sequences under all alignments (Graves 2006).

    Example:
        >>> log_probs = torch.full((2, 1, 2), 0.5).log()
        >>> lengths = torch.tensor([2]), torch.tensor([1])
        >>> CTCLoss()(log_probs, torch.tensor([[1]]), *lengths)
        tensor(0.2877)
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(  # type: ignore[override]
        self,
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: torch.Tensor,
        target_lengths: torch.Tensor,
    ) -> torch.Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, **self.given())
