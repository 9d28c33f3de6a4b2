"""Sizes of inputs that a caller names. Only those that stay as they are can be exported."""

from __future__ import annotations

from typing import Any, ClassVar

import rushlight as torch
from rushlight.base.errors import NotSupportedError

_LARGEST = (1 << 63) - 1


class Dim:
    """The name of a size, with its smallest and largest value."""

    AUTO: ClassVar[str] = "AUTO"
    DYNAMIC: ClassVar[str] = "DYNAMIC"
    STATIC: ClassVar[str] = "STATIC"

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, _LARGEST if max is None else max
        if self.max <= self.min:
            raise AssertionError(
                f"Cannot create Dim with inconsistent min={self.min}, max={self.max}"
            )
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


def check_static(dynamic_shapes: Any) -> None:
    """NotSupportedError when a size is asked to vary."""
    for leaf in torch.utils._pytree.tree_leaves(dynamic_shapes):
        if isinstance(leaf, Dim) or leaf in (Dim.DYNAMIC,):
            raise NotSupportedError(
                f"export: dynamic_shapes asks for a size that varies ({leaf!r}); sizes of an "
                "exported program are those of the example. Allowed are None, Dim.STATIC, "
                "Dim.AUTO (which may be static) and numbers"
            )
