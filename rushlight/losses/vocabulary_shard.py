"""One shard of a loss whose classes are spread over several processes.

Each shard holds the weight of some classes and all tokens. What the shards tell each other is
small: five numbers per token forward (`sums`, added up by `merge_shards`), and backward the
gradient of the input, which is the sum of the shards' gradients. Whoever has the collective calls:

    own = shard.sums();  whole = merge_shards(all shards' sums);  loss = shard.loss(whole)
    d_input, d_weight, d_bias = shard.gradients(whole, d_loss);  d_input is added over the shards

Shape letters: N tokens, C classes of this shard, D positions, F features.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import rushlight as torch
from rushlight.losses.by_classes import ByClasses, RowSums, merged
from rushlight.losses.chunks import Settings


def merge_shards(sums: Iterable[RowSums]) -> RowSums:
    """The sums over all classes from those of each shard; any order gives the same value, up to
    rounding."""
    return functools.reduce(merged, sums)


class VocabularyShard:
    """The classes `first ... first + C - 1` of `classes`. No logits are kept between the calls.

    Example:
        >>> from rushlight.losses.chunks import Settings
        >>> x, target = torch.zeros(2, 3), torch.tensor([[0], [3]])
        >>> whole = [VocabularyShard(x, torch.ones(2, 1, 3), None, target, None, Settings(), at, 4)
        ...          for at in (0, 2)]
        >>> whole[0].loss(merge_shards(shard.sums() for shard in whole))
        tensor(1.3863)
    """

    def __init__(
        self, x_NF: Any, w_CDF: Any, b_CD: Any, target: Any, weight: Any, settings: Settings,
        first: int, classes: int,
    ) -> None:  # fmt: skip
        """target: (N, D) classes of the whole vocabulary, or (N, C, D) probabilities of this
        shard's; weight: of all classes, or None."""
        if not 0 <= first <= classes - w_CDF.shape[0] or not w_CDF.shape[0]:
            raise ValueError(
                f"VocabularyShard: {w_CDF.shape[0]} classes from {first} on are not a part of "
                f"{classes}"
            )
        self._inputs = (x_NF, w_CDF, b_CD, target, weight, settings, first, classes)

    def _work(self) -> ByClasses:
        return ByClasses(*self._inputs)

    def sums(self) -> RowSums:
        """Of this shard's classes, each (N, D)."""
        with torch.no_grad():
            work = self._work()
            found = [[work.sums(d, rows) for rows in work.rows] for d in range(work.depth)]
            columns = [
                RowSums(*map(torch.cat, zip(*map(RowSums.parts, c), strict=True))) for c in found
            ]
            return RowSums(
                *(torch.stack(part, -1) for part in zip(*map(RowSums.parts, columns), strict=True))
            )

    def loss(self, whole: RowSums) -> Any:
        """The loss, equal on all shards; (N, D) for reduction 'none'."""
        with torch.no_grad():
            return self._after(whole).result()

    def gradients(self, whole: RowSums, d_loss: Any) -> tuple[Any, Any, Any]:
        """(this shard's part of the input's gradient, in the dtype of sums; of its weight; of its
        bias or None)."""
        with torch.no_grad():
            work, settings = self._after(whole), self._inputs[5]
            if settings.reduction == "none":
                row_scale = d_loss.to(work.working).expand(work.shape)
                z_scale = row_scale * settings.z_loss if settings.z_loss else None
            else:
                up = d_loss.to(work.working)
                row_scale, z_scale = (t if t is None else t * up for t in work.own_scales())
            needs = (True, True, self._inputs[2] is not None)
            d_x, d_w, d_b = work.gradients_of_kept(row_scale, z_scale, needs)
            return d_x, d_w, d_b

    def _after(self, whole: RowSums) -> ByClasses:
        """The work with the losses of all tokens kept."""
        work = self._work()
        for d in range(work.depth):
            for rows in work.rows:
                work.keep(d, rows, whole.at((rows, d)))
        return work
