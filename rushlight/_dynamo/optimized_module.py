"""OptimizedModule: what `compile` gives for a module.

In: a module, the settings of `compile`. Out: a module around it, `_orig_mod`, whose call is
compiled. Attributes are read from and set on the module inside; parameters and state dicts have
names that begin with `_orig_mod.`; hooks of the outer one run around the compiled call.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import Module

INSIDE = "_orig_mod"
# What belongs to the outer module; all other attributes are set on the one inside.
_FIELDS = frozenset(Module().__dict__) - {"training"}
OWN = _FIELDS | {"_compiled", "_settings", "forward", "_compiled_call_impl"}


class OptimizedModule(Module):
    """A compiled module.

    >>> layer = torch.nn.Linear(2, 1)
    >>> fast = torch.compile(layer)
    >>> fast._orig_mod is layer, list(fast.state_dict())
    (True, ['_orig_mod.weight', '_orig_mod.bias'])
    """

    def __init__(self, mod: Module, compiled: Any = None, settings: Any = None) -> None:
        Module.__init__(self)
        fields = self.__dict__
        del fields["training"]  # it is the inner module's
        fields["_settings"] = {} if settings is None else settings
        fields["_modules"][INSIDE] = mod
        self._put(compiled)

    def _put(self, compiled: Any) -> None:
        fields = self.__dict__
        if compiled is None:
            compiled = torch.compile(fields["_modules"][INSIDE], **fields["_settings"])._compiled
        fields["_compiled"] = fields["forward"] = compiled

    @property
    def training(self) -> bool:  # type: ignore[override]
        """The inner module's."""
        return self._modules[INSIDE].training

    @training.setter
    def training(self, value: bool) -> None:
        self._modules[INSIDE].training = value

    def __getattr__(self, name: str) -> Any:
        """The inner module's; `tuned`, where that has none, is the compiled call's."""
        inner = self.__dict__.get("_modules", {}).get(INSIDE)
        if inner is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if name == "tuned" and not hasattr(inner, name):
            return self._compiled.tuned
        return inner if name == INSIDE else getattr(inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set it on the inner module."""
        if name in OWN:
            self.__dict__[name] = value
        elif name == INSIDE:
            self._modules[INSIDE] = value
            self._put(None)
        else:
            setattr(self._modules[INSIDE], name, value)

    def __delattr__(self, name: str) -> None:
        """Delete it from the inner module."""
        delattr(self._modules[INSIDE], name)

    def __dir__(self) -> list[str]:
        """The names of both."""
        return sorted({INSIDE, *super().__dir__(), *dir(self._modules[INSIDE])})

    def __len__(self) -> int:
        """Of a container."""
        return len(self._modules[INSIDE])  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        """Of a container."""
        return self._modules[INSIDE][key]  # type: ignore[index]

    def __iter__(self) -> Any:
        """Of a container."""
        return iter(self._modules[INSIDE])  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        """All but what was compiled."""
        left_out = ("_compiled", "forward", "_compiled_call_impl")
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the fields; the call is compiled anew."""
        self.__dict__.update(state)
        self._put(None)
