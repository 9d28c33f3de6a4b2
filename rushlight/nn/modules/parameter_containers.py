"""Modules that hold parameters: ParameterList, ParameterDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import rushlight as torch
from rushlight.nn.modules.container import checked_index, checked_pairs
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


def as_parameter(value: Any) -> Any:
    """Make a Parameter of a plain tensor; leave other values as they are."""
    is_plain = isinstance(value, torch.Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


def describe(value: Any, type_text: str) -> str:
    """Print one entry of a parameter container."""
    if not isinstance(value, torch.Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(length) for length in value.size())
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{type_text} of size {size}{device}]"


class ParameterList(Module):
    """A list of parameters; plain tensors become parameters.

    Example:
        >>> import rushlight as torch
        >>> weights = torch.nn.ParameterList([torch.zeros(2), torch.zeros(3)])
        >>> len(list(weights.parameters()))
        2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        """Take the first values."""
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, index: Any) -> str:
        return str(checked_index(index, len(self)))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name_at(index), as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, torch.Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, "
                f"but got {type(values).__name__}"
            )
        for value in [*values]:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({place}): {describe(value, str(getattr(value, 'dtype', '')))}"
            for place, value in enumerate(self)
        )

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a list of parameters computes nothing."""
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters; plain tensors become parameters.

    Example:
        >>> import rushlight as torch
        >>> weights = torch.nn.ParameterDict({"scale": torch.ones(2)})
        >>> weights["scale"].requires_grad
        True
    """

    def __init__(self, parameters: Any = None) -> None:
        """Take the first parameters, from a mapping or from pairs."""
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _checked_key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need "
                "non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._checked_key(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attribute = self._checked_key(key)
        self._keys[key] = None
        setattr(self, attribute, as_parameter(value))

    def __delitem__(self, key: str) -> None:
        attribute = self._checked_key(key)
        del self._keys[key]
        delattr(self, attribute)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed([*self._keys])

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dict with the same parameters."""
        return ParameterDict([*self.items()])

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, after setting it to `default` when it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all parameters."""
        for key in [*self._keys]:
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the newest (key, value)."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, or `default`."""
        return self[key] if key in self else default

    @staticmethod
    def fromkeys(keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dict with `default` for each key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the (key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace parameters from a mapping or from (key, value) pairs."""
        for key, value in checked_pairs(parameters, "ParameterDict", "ParametersDict"):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({key}): {describe(value, torch.typename(value))}" for key, value in self.items()
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a dict of parameters computes nothing."""
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
