"""Calls of modules with their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.nn.modules.module import Module

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Call each module with its inputs, one after the other.

    >>> import rushlight as torch
    >>> [y.tolist() for y in parallel_apply([torch.nn.ReLU()] * 2, [torch.ones(1), -torch.ones(1)])]
    [[1.0], [0.0]]
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    named = kwargs_tup or [{}] * len(modules)
    given = [args if isinstance(args, list | tuple) else (args,) for args in inputs]
    return [module(*args, **kw) for module, args, kw in zip(modules, given, named, strict=True)]
