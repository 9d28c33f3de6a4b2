"""`torch.ops.space`: the namespaces of operators that users make.

This package is also PyTorch's module `torch.ops`. It knows its own records only; the public package
says here how namespaces are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Spaces:
    find: Callable[[str], Any]


SPACES = _Spaces()


def find_space(name: str) -> Any:
    """The namespace called `name`."""
    if not hasattr(SPACES, "find"):
        raise AttributeError(f"module 'rushlight.ops' has no attribute '{name}'")
    return SPACES.find(name)
