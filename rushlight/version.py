"""torch.version: which build this is. No CUDA or ROCm is compiled in; GPUs are backends."""

from __future__ import annotations

from rushlight import names as _names
from rushlight.names.version import OWN, VERSION

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rushlight", "xpu"]
__getattr__ = _names.getattr_of(__name__)

__version__ = str(VERSION)
rushlight = OWN
git_version = None
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
