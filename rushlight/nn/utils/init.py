"""skip_init: a module whose parameters will be loaded anyway."""

from __future__ import annotations

import inspect
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module whose starting values nobody will use; the random state stays as it is.

    Starting values are recorded, not computed: those that are overwritten cost nothing.

    Example:
        >>> skip_init(torch.nn.Linear, 5, 1).weight.shape
        torch.Size([1, 5])
    """
    if not issubclass(module_cls, torch.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with torch.random.fork_rng():
        return module_cls(*args, **kwargs)
