"""torch.version: which build this is. No CUDA or ROCm is compiled in; GPUs are backends."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = "0.1.0"
git_version = None
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
