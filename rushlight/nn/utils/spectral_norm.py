"""Spectral normalization (Miyato et al. 2018) by a hook that runs before `forward`.

The largest singular value is u . (W v); u and v follow by one or more power iterations per step.
"""

from __future__ import annotations

from typing import Any, TypeVar

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

ModuleT = TypeVar("ModuleT", bound=Module)
Tensor = torch.Tensor


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """One row for each entry of a dimension."""
    return weight.movedim(dim, 0).flatten(1)


def default_dim(module: Module) -> int:
    """The dimension of the outputs."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def check_iterations(count: int) -> None:
    """Raise for less than one."""
    if count <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={count}"
        )


@torch.no_grad()
def iterate(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Power iterations: move u and v, in place, towards the first singular vectors."""
    for _ in range(count):
        u.copy_(F.normalize(torch.mv(matrix, v), dim=0, eps=eps))
        v.copy_(F.normalize(torch.mv(matrix.mH, u), dim=0, eps=eps))


def largest_singular_value(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """u . (matrix v); later iterations do not change what backward needs."""
    return torch.dot(u.clone(), torch.mv(matrix, v.clone()))


class SpectralNorm:
    """The hook: sets `name` to `name_orig` divided by its largest singular value."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        check_iterations(n_power_iterations)
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight of the parameter and the buffers."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:  # first v, then u
            iterate(matrix.detach().mH, v, u, self.n_power_iterations, self.eps)
        return weight / largest_singular_value(matrix, u, v)

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with torch.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for part in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{part}")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Before `forward`: compute the weight."""
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Replace a parameter by the original and two buffers."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with torch.no_grad():
            matrix = as_matrix(weight, dim)
            starts = [matrix.new_empty(size).normal_(0, 1) for size in matrix.shape]
            u, v = (F.normalize(start, dim=0, eps=eps) for start in starts)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        return fn


class SpectralNormStateDictHook:
    """Writes the version into the metadata of a state dict, where PyTorch looks for it."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: dict[str, Any], prefix: str, metadata: dict[str, Any]
    ) -> None:
        """After `state_dict` read the module."""
        versions = metadata.setdefault("spectral_norm", {})
        versions[f"{self.fn.name}.version"] = self.fn._version


def spectral_norm(
    module: ModuleT,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> ModuleT:
    """Divide a parameter by its largest singular value; return `module`.

    Args:
        n_power_iterations: steps towards the singular vectors in each training `forward`.
        dim: the dimension of the outputs; 1 for transposed convolutions, else 0.

    Example:
        >>> layer = spectral_norm(torch.nn.Linear(3, 2))
        >>> [*layer.state_dict()]
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    dim = default_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: ModuleT, name: str = "weight") -> ModuleT:
    """Undo `spectral_norm`; return `module`."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, hook in module._state_dict_hooks.items():
        if isinstance(hook, SpectralNormStateDictHook) and hook.fn.name == name:
            del module._state_dict_hooks[key]
            break
    return module
