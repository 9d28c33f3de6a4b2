"""How much torch.distributed says of itself: a setting that programs read and set."""

from __future__ import annotations

import enum

from rushlight.base.config import child_environment
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)


class DebugLevel(enum.IntEnum):
    """OFF, INFO, DETAIL."""

    OFF, INFO, DETAIL = 0, 1, 2


class _State:
    level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """The level that was set; OFF at first."""
    return _State.level


def set_debug_level(level: DebugLevel) -> None:
    """Keep the level for `get_debug_level`; ValueError for what is none."""
    _State.level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """The level that the variable TORCH_DISTRIBUTED_DEBUG names."""
    name = child_environment().get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, got {name!r}"
        )
    _State.level = DebugLevel[name]
