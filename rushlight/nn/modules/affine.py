"""What normalizations share: a scale `weight` and a shift `bias` that start as 1 and 0."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


class AffineModule(Module):
    """A module with `weight` and `bias`, each a Parameter or None."""

    def register_affine(
        self,
        shape: Any,
        weight: bool,
        bias: bool,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Create those that are wanted; the values come from `reset_parameters`."""
        for name, wanted in {"weight": weight, "bias": bias}.items():
            start = Parameter(torch.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, start)

    def reset_parameters(self) -> None:
        """Start as plain normalization: weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if getattr(self, "bias", None) is not None:
            init.zeros_(self.bias)
