"""factory_kwargs: the options that say where and of which dtype a module makes its tensors."""

from __future__ import annotations

from typing import Any

NAMES = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the options of a factory function among keyword arguments; others are an error.

    Example:
        >>> factory_kwargs({"device": "cpu"})
        {'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    unknown = kwargs.keys() - {*NAMES, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in NAMES:
        if name not in kwargs:
            continue
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found
