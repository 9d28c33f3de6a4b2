"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rushlight.nn.modules.module import Module, indent_tail


def checked_index(index: Any, length: int) -> int:
    """Return a non-negative position, or raise as a list does."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


class _Numbered(Module):
    """What Sequential and ModuleList share: children named "0", "1", ..."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _name_at(self, index: Any) -> str:
        return [*self._modules][checked_index(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = [*self._modules]
        for name in names[index] if isinstance(index, slice) else [self._name_at(index)]:
            delattr(self, name)
        self._renumber([*self._modules.values()])

    def _renumber(self, modules: list[Any]) -> None:
        self._modules = {str(place): module for place, module in enumerate(modules)}

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Numbered):
    """Modules called one after the other, each with the result of the one before.

    Example:
        >>> import rushlight as torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> model(torch.zeros(1, 2)).shape
        torch.Size([1, 3])
    """

    def __init__(self, *args: Any) -> None:
        """Take modules, or one OrderedDict from names to modules."""
        super().__init__()
        is_dict = len(args) == 1 and isinstance(args[0], OrderedDict)
        named = args[0].items() if is_dict else ((str(i), m) for i, m in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Pass the input through all modules."""
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict([*self._modules.items()][index]))
        return self._modules[self._name_at(index)]

    def __delitem__(self, index: int | slice) -> None:
        super().__delitem__(index)

    def pop(self, key: int | slice) -> Any:
        """Remove and return."""
        module = self[key]
        del self[key]
        return module

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = [*self]
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add the modules of another one at the end."""
        for module in sequential:
            self.append(module)
        return self

    def _joined(self, modules: Iterable[Module]) -> Sequential:
        return Sequential(*modules)

    def __add__(self, other: Sequential) -> Sequential:
        self._check_addend(other)
        return self._joined([*self, *other])

    def __iadd__(self, other: Sequential) -> Sequential:
        self._check_addend(other)
        return self.extend([*other])

    def _check_addend(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} "
                "is given."
            )

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return self._joined([*self] * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return self.extend([*self] * (other - 1))


class ModuleList(_Numbered):
    """A list of modules; it has no forward.

    Example:
        >>> import rushlight as torch
        >>> layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
        >>> len(layers)
        3
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        """Take the first modules."""
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([*self][index])
        return self._modules[self._name_at(index)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`."""
        modules = [*self]
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key: int | slice) -> Any:
        """Remove and return."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, "
                f"but got {type(modules).__name__}"
            )
        for module in [*modules]:
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Print equal neighbors as one line, `(0-5): 6 x Linear(...)`."""
        runs: list[tuple[int, int, str]] = []
        for place, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], place, text)
            else:
                runs.append((place, place, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}"
            if first == last
            else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        body = "\n  ".join(indent_tail(line, 2) for line in lines)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dict of modules; it has no forward.

    Example:
        >>> import rushlight as torch
        >>> heads = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 1)})
        >>> "a" in heads
        True
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        """Take the first modules."""
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return the (name, module) pairs."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules from a mapping or from (name, module) pairs."""
        for key, module in checked_pairs(modules, "ModuleDict", "ModuleDict"):
            self[key] = module


def checked_pairs(values: Any, class_name: str, update_name: str) -> list[tuple[str, Any]]:
    """Read a mapping or an iterable of pairs; raise PyTorch's messages for anything else."""
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{update_name}.update should be called with an iterable of key/value pairs, "
            f"but got {type(values).__name__}"
        )
    if isinstance(values, Mapping) or hasattr(values, "items"):
        return [*values.items()]
    pairs = []
    for place, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{class_name} update sequence element #{place} should be Iterable; "
                f"is{type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{class_name} update sequence element #{place} has length {len(pair)}; "
                "2 is required"
            )
        pairs.append(pair)
    return pairs


class Container(Module):
    """Modules by keyword; the oldest kind of container.

    Example:
        >>> [name for name, _ in Container(first=Module()).named_children()]
        ['first']
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)
