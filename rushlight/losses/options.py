"""LinearCrossEntropyOptions: hints for how the fused loss cuts its work. They change no result."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import rushlight as torch

POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's fields.

    `batch_chunk_size` and `chunking_method` set the tokens computed at once (`auto`: what fits
    into 16 MiB of logits). `acc_policy` and `acc_dtype` are accepted: sums are always float32, or
    float64 for float64 inputs. `allow_retain_graph` is accepted: it always works.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, _, factor = self.chunking_method.partition(":")
            factor = factor if ":" in self.chunking_method else "1"
            if name != "aspect_ratio" or not factor.isdigit() or int(factor) < 1:
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        known = (None, torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if self.acc_dtype not in known:
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, "
                f"torch.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick "
                "automatically."
            )

    def rows_at_once(self, rows: int, features: int, classes: int, fitting: int) -> int:
        """Tokens of one chunk; `fitting` is what the limit of memory allows."""
        method = self.chunking_method
        if method == "auto":
            return max(1, min(self.batch_chunk_size or fitting, max(rows, 1)))
        if method is None:
            return max(1, min(self.batch_chunk_size or rows, max(rows, 1)))
        factor = int(method.partition(":")[2] or 1)
        target = -(-rows // max(1, -(-classes // max(1, features))))
        chunk = max(1, min((1 << max(0, target - 1).bit_length()) // factor, rows))
        if self.batch_chunk_size is not None and min(self.batch_chunk_size, rows) != chunk:
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ('{method}') "
                f"give different chunk sizes ({self.batch_chunk_size} vs {chunk}); pass only one."
            )
        return chunk
