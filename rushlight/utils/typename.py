"""`torch.typename`: the name of a value's type as error messages show it."""

from __future__ import annotations

import rushlight as torch


def typename(obj: object) -> str:
    """Return a tensor's type text, else the qualified name of the class.

    Example:
        >>> typename(3), typename(torch.zeros(1))
        ('int', 'torch.FloatTensor')
    """
    if isinstance(obj, torch.Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    is_builtin = cls.__module__ in ("builtins", "__builtin__", None)
    return cls.__qualname__ if is_builtin else f"{cls.__module__}.{cls.__qualname__}"
