"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes, cheap for the frequent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module

Tensor = torch.Tensor


class _ASMoutput(NamedTuple):
    """The log probability of each target, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes sorted by frequency, cut into a head and clusters (Grave et al. 2017).

    The head decides between the classes before the first cutoff and the clusters; a cluster's own
    classes are looked at only for the samples whose target is in it. Which those are depends on
    values, so `forward` looks at the targets.

    Args:
        cutoffs: where the clusters begin, in increasing order.
        div_value: each cluster's features are that many times fewer than those before.

    Example:
        >>> layer = AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10])
        >>> layer(torch.zeros(3, 8), torch.tensor([0, 5, 19])).output.shape
        torch.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        check_cutoffs(cutoffs, n_classes)
        options = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            hidden = int(in_features // (div_value ** (number + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **options),
                    Linear(hidden, high - low, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for to_hidden, to_out in self.tail:
            to_hidden.reset_parameters()
            to_out.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the targets' log probabilities and minus their mean."""
        check_target(input_, target_)
        is_batched = target_.dim() > 0
        input = input_ if is_batched else input_.unsqueeze(0)
        target = target_ if is_batched else target_.unsqueeze(0)
        self._check_range(target)
        output = input.new_zeros(target.size(0))
        # Of a sample in a cluster the head is asked for the cluster.
        asked = target.clone()
        for number, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            rows = ((target >= low) & (target < high)).nonzero().flatten()
            if rows.numel() == 0:
                continue
            logits = self.tail[number](input.index_select(0, rows))
            inside = (target.index_select(0, rows) - low).unsqueeze(1)
            found = F.log_softmax(logits, dim=1).gather(1, inside).squeeze(1)
            output = output.index_copy(0, rows, found)
            asked = asked.index_fill(0, rows, self.shortlist_size + number)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, asked.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if is_batched else output.squeeze(0), loss)

    def _check_range(self, target: Tensor) -> None:
        if target.numel() == 0:
            return
        low, high = target.min().item(), target.max().item()
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{low}, {high}] were found. "
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            own = F.log_softmax(cluster(input), dim=1)
            place = self.shortlist_size + number
            parts.append(own + head[:, place : place + 1])
        return torch.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes, (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample, (N)."""
        head_output = self.head(input)
        output = torch.argmax(head_output, dim=1)
        in_cluster = output >= self.shortlist_size
        if not in_cluster.any():
            return output
        log_prob = self._get_full_log_prob(input, head_output)
        return torch.where(in_cluster, torch.argmax(log_prob, dim=1), output)


def check_cutoffs(cutoffs: list[Any], n_classes: int) -> None:
    """Raise unless they cut the classes into parts."""
    if len(cutoffs) == 0:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    if (
        any(int(c) != c for c in cutoffs)
        or cutoffs != sorted(set(cutoffs))
        or min(cutoffs) <= 0
        or max(cutoffs) > n_classes - 1
    ):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            "order, where each value is between 1 and n_classes-1"
        )


def check_target(input: Tensor, target: Tensor) -> None:
    """Raise unless inputs and targets fit."""
    if target.dim() == 1:
        if input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != 2:
            raise RuntimeError(
                "1D target tensor expects 2D input tensors, but found inputs with size "
                f"{input.size()}"
            )
    elif target.dim() == 0:
        if input.dim() != 1:
            raise RuntimeError(
                "0D target tensor expects 1D input tensors, but found inputs with size "
                f"{input.size()}"
            )
    else:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
