"""torch.nn.utils._named_member_accessor: a module's tensors and submodules by dotted name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module

_MISSING: Any = object()


def _registry(module: Module, name: str) -> dict[str, Any] | None:
    """Where the module keeps the parameter or buffer `name`."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name or not name:
        raise KeyError(f"tensor name must not be empty nor contain '.', got {name!r}")
    for registry in (module._parameters, module._buffers):
        if name in registry:
            return registry
    return None


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor into a module, past all checks and hooks; gives the one that was there."""
    registry = _registry(module, name)
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if registry is not None:
        before = registry.pop(name) if tensor is _MISSING else registry[name]
        if tensor is not _MISSING:
            registry[name] = tensor
        return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before not in (_MISSING, None) and not isinstance(before, torch.Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def set_tensor(module: Module, name: str, tensor: Any) -> None:
    """Put a tensor into a module, past all checks and hooks."""
    swap_tensor(module, name, tensor, allow_missing=True)


class NamedMemberAccessor:
    """The tensors and submodules of one module, by dotted name."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def _owner(self, name: str) -> tuple[Module, str]:
        path, _, leaf = name.rpartition(".")
        return self.get_submodule(path), leaf

    def get_submodule(self, name: str) -> Module:
        """The module itself for ""."""
        return self.module.get_submodule(name) if name else self.module

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module there; gives the one that was there."""
        owner, leaf = self._owner(path)
        before = owner._modules[leaf]
        owner._modules[leaf] = value
        return before

    def get_tensor(self, name: str) -> Any:
        owner, leaf = self._owner(name)
        return getattr(owner, leaf)

    def set_tensor(self, name: str, value: Any) -> None:
        set_tensor(*self._owner(name), value)

    def del_tensor(self, name: str) -> None:
        swap_tensor(*self._owner(name), _MISSING)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        return swap_tensor(*self._owner(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        return [self.get_tensor(name) for name in names]

    def set_tensors_dict(self, named_tensors: Mapping[str, Any]) -> None:
        for name, tensor in named_tensors.items():
            self.set_tensor(name, tensor)

    def swap_tensors_dict(
        self, named_tensors: Mapping[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """The tensors that were there, and the names under which there was none."""
        before = {n: self.swap_tensor(n, t, allow_missing) for n, t in named_tensors.items()}
        return before, [name for name, tensor in before.items() if tensor is _MISSING]

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
