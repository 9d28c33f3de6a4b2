"""torch._dynamo.utils: questions that packages ask."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "counters", "is_compile_supported",
]  # fmt: skip
# PyTorch counts its tracer's events here; there are none.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: Any) -> bool:
    """Can `torch.compile` make programs for this kind of device?"""
    return str(device_type) == "cpu"
