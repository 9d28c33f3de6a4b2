"""What both orders of work share: the inputs, the logits of a block, scales, the result.

In: tensors in the form of `linear_cross_entropy.py`. Out: losses per token in `pieces`, and from
them the result. Always true: blocks and their order depend on shapes and options only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight.losses.options import LinearCrossEntropyOptions
from rushlight.losses.plain_linear_cross_entropy import reduced
from rushlight.tensors.parts import flush_part, own_memory

LOGITS_AT_ONCE = 1 << 22  # 16 MiB of float32


@dataclass(frozen=True)
class Settings:
    """How to compute: the reduction, the ignored class, smoothing, z-loss, cap, chunks."""

    reduction: str = "mean"
    ignored: int = -100
    smoothing: float = 0.0
    z_loss: float = 0.0
    softcap: float | None = None
    options: LinearCrossEntropyOptions = LinearCrossEntropyOptions()


class Chunks:
    """One evaluation of the loss; how it is cut is the subclass's.

    pieces  position d -> per block of tokens: (losses, squares of lse, weights, counts)
    """

    def __init__(
        self, x: Any, w: Any, b: Any, target: Any, weight: Any, settings: Settings
    ) -> None:
        own = (t if t is None else own_memory(t) for t in (x, w, b, target, weight))
        self.x, self.w, self.b, self.target, self.weight = own
        self.settings = settings
        self.working = torch.float64 if x.dtype is torch.float64 else torch.float32
        self.classes, self.depth, self.width = w.shape
        self.shape = (x.shape[0], self.depth)
        self.pieces: dict[int, list] = {d: [] for d in range(self.depth)}

    def losses_only(self) -> None:
        """Fill `pieces`."""
        raise NotImplementedError

    def gradients(self, row_scale: Any, z_scale: Any, needs: tuple) -> list:
        """Fill `pieces`; gradients of x, w, b for (N, D) factors of the tokens' losses."""
        raise NotImplementedError

    def finish_part(self) -> None:
        """Compute now, so that a block's logits are gone before the next."""
        flush_part()

    def logits(self, x: Any, d: int, classes: slice = slice(None)) -> Any:
        """(rows, classes) of some tokens, bent by the cap."""
        z = x @ self.w[classes, d].to(self.working).transpose(0, 1)
        z = z if self.b is None else z + self.b[classes, d].to(self.working)
        cap = self.settings.softcap
        return z if cap is None else cap * torch.tanh(z / cap)

    def through_cap(self, gradient: Any, z: Any) -> Any:
        """The gradient of the logits before the cap."""
        cap = self.settings.softcap
        return gradient if cap is None else gradient * (1.0 - (z / cap) ** 2)

    def empty_gradients(self, needs: tuple) -> list:
        """Zeros in the working dtype, None where nothing is needed."""
        inputs = zip((self.x, self.w, self.b), needs, strict=True)
        return [torch.zeros(t.shape, dtype=self.working) if need else None for t, need in inputs]

    def own_scales(self) -> tuple[Any, Any]:
        """What each token's loss and squared logsumexp are multiplied by in the result."""
        ones = torch.ones(self.shape, dtype=self.working)
        coefficient = self.settings.z_loss
        if self.settings.reduction == "sum":
            return ones, ones * coefficient if coefficient else None
        if self.target.is_floating_point():
            weights = counts = torch.tensor(float(ones.numel()), dtype=self.working)
        else:
            keep = self.target != self.settings.ignored
            counts = keep.to(self.working).sum()
            weights = counts
            if self.weight is not None:
                picked = self.weight.to(self.working)[torch.where(keep, self.target, 0).long()]
                weights = torch.where(keep, picked, 0.0).sum()
        scale = torch.where(weights == 0, 0.0, 1.0 / weights)
        z_scale = torch.where(counts == 0, 0.0, coefficient / counts)
        return ones * scale, ones * z_scale if coefficient else None

    def result(self) -> Any:
        """The loss from what the blocks left."""
        columns = []
        for d in range(self.depth):
            pieces = zip(*self.pieces[d], strict=True) if self.pieces[d] else ()
            columns.append([torch.cat(list(p)) for p in pieces])
        empty = torch.zeros(self.shape, dtype=self.working)
        if not self.shape[0] or not self.depth:
            return reduced(empty, empty, empty, empty, self.settings).to(self.x.dtype)
        loss, square, weights, counts = (torch.stack([c[i] for c in columns], -1) for i in range(4))
        return reduced(loss, square, weights, counts, self.settings).to(self.x.dtype)


def even_blocks(extent: int, most: int) -> list[slice]:
    """Blocks of about the same length, none longer than `most`."""
    if extent == 0:
        return []
    length = -(-extent // -(-extent // most))
    return [slice(i, min(i + length, extent)) for i in range(0, extent, length)]
