"""`torch.nn.attention`: which kernel attention uses (there is one), and `flex_attention`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels of attention. Here is one, which never holds the scores."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: Sequence[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[None]:
    """Accepted: inside and outside, attention is computed by the same kernel."""
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(backend, SDPBackend) for backend in given):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend")
    yield
