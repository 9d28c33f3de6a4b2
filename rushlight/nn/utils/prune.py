"""Pruning: a mask of zeros on a parameter, chosen by different rules (`prune_methods.py`).

A pruned parameter `name` becomes `name_orig` (the parameter) and `name_mask` (a buffer); before
each `forward` a hook sets the attribute `name` to their product. `remove` makes it permanent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.prune_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    hooks_of,
)

Tensor = torch.Tensor


def identity(module: Module, name: str) -> Module:
    """Add a mask of ones; return `module`."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune entries at random; return `module`.

    Example:
        >>> layer = random_unstructured(torch.nn.Linear(2, 3), "weight", amount=1)
        >>> int((layer.weight == 0).sum())
        1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
) -> Module:
    """Prune the smallest entries (or those with the smallest scores); return `module`.

    Example:
        >>> layer = l1_unstructured(torch.nn.Linear(2, 3), "weight", amount=0.5)
        >>> sorted(layer.state_dict())
        ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune slices along `dim` at random; return `module`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: Any,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the slices along `dim` with the smallest n-norms; return `module`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any,
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[Any, Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as one vector.

    Args:
        parameters: pairs of a module and a name.
        importance_scores: scores by such pairs, in place of the values.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = [*parameters]
    flat = torch.cat([scores.get(pair, getattr(*pair)).detach().reshape(-1) for pair in pairs])
    masks = [getattr(m, f"{name}_mask", torch.ones_like(getattr(m, name))) for m, name in pairs]
    default_mask = torch.cat([mask.detach().reshape(-1) for mask in masks])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(flat, default_mask)
    start = 0
    for module, name in pairs:
        param = getattr(module, name)
        custom_from_mask(module, name, final[start : start + param.numel()].view_as(param))
        start += param.numel()


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune by a given mask; return `module`."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Keep the zeros and drop the mask; return `module`."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Say if a module, or one below it, is pruned."""
    return any(True for below in module.modules() for _ in hooks_of(below))
