"""torch._inductor: settings of PyTorch's compiler that programs set; they change nothing here."""

from __future__ import annotations

from typing import Any

from rushlight import names as _names
from rushlight._inductor import config

__getattr__ = _names.getattr_of(__name__)
__all__ = ["config", "list_mode_options", "list_options"]


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options of each mode of `torch.compile`: none, all modes do the same."""
    modes = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
    if mode is None:
        return {name: {} for name in modes}
    if mode not in modes:
        raise KeyError(mode)
    return {}


def list_options() -> list[str]:
    """The names of the settings."""
    return sorted(name for name in vars(config) if not name.startswith("_") and name != "patch")
