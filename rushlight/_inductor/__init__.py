"""torch._inductor: settings of PyTorch's compiler that programs set; README.md says which act."""

from __future__ import annotations

from typing import Any

from rushlight import names as _names
from rushlight._inductor import config

__getattr__ = _names.getattr_of(__name__)
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
__all__ = ["config", "list_mode_options", "list_options"]


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options of each mode of `torch.compile`, or of `mode`: those that change something here.

    KeyError for a mode that there is not.

    >>> list_mode_options("max-autotune")
    {'max_autotune': True}
    """
    modes = {name: {"max_autotune": True} if "max-autotune" in name else {} for name in _MODES}
    return modes if mode is None else modes[mode]


def list_options() -> list[str]:
    """The names of the settings."""
    return sorted(name for name in vars(config) if not name.startswith("_") and name != "patch")
