"""torch.cuda.amp: the old names of torch.amp. There is no CUDA device, so both are switched off."""

from __future__ import annotations

from typing import Any

from rushlight import amp
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__path__: list[str] = []  # modules below it are aliases (names/aliases.py)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """torch.amp.custom_fwd for device type "cuda"."""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """torch.amp.custom_bwd for device type "cuda"."""
    return amp.custom_bwd(bwd, device_type="cuda")


class autocast(amp.autocast):  # noqa: N801
    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)
