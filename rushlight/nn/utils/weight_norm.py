"""Weight normalization (Salimans and Kingma 2016) by a hook that runs before `forward`."""

from __future__ import annotations

from typing import Any, TypeVar

import rushlight as torch
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

ModuleT = TypeVar("ModuleT", bound=Module)


def norm_except_dim(v: torch.Tensor, dim: int | None) -> torch.Tensor:
    """The norm over all dimensions but one, which keeps its size; of everything if None or -1."""
    if dim is None or dim == -1:
        return torch.linalg.vector_norm(v)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return torch.linalg.vector_norm(v, dim=others, keepdim=True) if others else v.abs()


def scaled_to(v: torch.Tensor, g: torch.Tensor, dim: int | None) -> torch.Tensor:
    """v with the length g."""
    return v * (g / norm_except_dim(v, dim))


class WeightNorm:
    """The hook: sets `name` to `name_v` with the length `name_g`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> torch.Tensor:
        """The weight of the parameters."""
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return scaled_to(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter by its length and direction."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        length = norm_except_dim(weight.detach(), fn.dim)
        module.register_parameter(f"{name}_g", Parameter(length))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for part in "gv":
            del module._parameters[f"{self.name}_{part}"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Before `forward`: compute the weight."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: ModuleT, name: str = "weight", dim: int | None = 0) -> ModuleT:
    """Split a parameter into length `name_g` and direction `name_v`; return `module`.

    Args:
        dim: the dimension whose entries have a length each; None gives one length for all.

    Example:
        >>> layer = weight_norm(torch.nn.Linear(3, 2))
        >>> [*layer.state_dict()], layer.weight_g.shape
        (['bias', 'weight_g', 'weight_v'], torch.Size([2, 1]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: ModuleT, name: str = "weight") -> ModuleT:
    """Undo `weight_norm`; return `module`."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
