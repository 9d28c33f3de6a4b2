"""The part of Module that finds things: names, parameters, buffers, submodules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rushlight as torch
from rushlight.nn.parameter import Parameter


class ModuleFields:
    """The fields of every module, declared once for all parts of the class Module."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, torch.Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]


class ModuleWalk(ModuleFields):
    """Iterators over, and look-ups in, the tree of modules."""

    def _get_name(self) -> str:
        return type(self).__name__

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Yield the members of each module; a tensor that is met again is left out."""
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield module_prefix + ("." if module_prefix else "") + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters of this module and, with `recurse`, of all below it."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (name, parameter)."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[torch.Tensor]:
        """Yield the buffers of this module and, with `recurse`, of all below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield (name, buffer)."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[torch.nn.Module]:
        """Yield the modules directly below this one."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yield (name, module) for the modules directly below this one."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[torch.nn.Module]:
        """Yield this module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, module) for this module, then depth first for all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, below, remove_duplicate)

    def get_submodule(self, target: str) -> Any:
        """Return the module with the dotted name `target`; "" is this module."""
        module: Any = self
        if target == "":
            return module
        for name in target.split("."):
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleWalk):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: torch.nn.Module, strict: bool = False) -> None:
        """Put `module` at the dotted name; `strict` wants a module to be there before."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleWalk):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleWalk):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with the dotted name `target`."""
        found = self._get_member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> torch.Tensor:
        """Return the buffer with the dotted name `target`."""
        path, _, name = target.rpartition(".")
        found = self._get_member(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _get_member(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return getattr(module, name)
