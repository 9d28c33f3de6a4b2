"""Finders for `import`: modules that are aliases or stand-ins, and `torch` as another name of
`rushlight`.

`AliasFinder` is always on, and asked when there is no file: it makes `rushlight.optim.adamw` from
the table in `aliases.py`, and `rushlight.distributed.tensor`, a module of stand-ins; it gives the
switches `rushlight.backends.cudnn` when they are imported.
`TorchFinder` is on between `install_as_torch()` and its end: `torch.X` is the module `rushlight.X`,
the same object under a second name. (The classes of `importlib.abc` cost more to import than all
this; a finder needs its methods only.)
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from rushlight.names.aliases import ALIASES
from rushlight.names.refused import stand_in_reason

OURS, THEIRS = "rushlight", "torch"
SECOND = {
    THEIRS: OURS,
    "functorch": f"{OURS}.func.functorch",
}  # a package's name -> what it is here


class AliasModule(ModuleType):
    """A module whose names are looked up in other modules, each time anew."""

    def __init__(self, name: str, targets: tuple[str, ...]) -> None:
        super().__init__(name, f"Names of PyTorch's {name}.")
        self._targets = targets

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            if f"{self.__name__}.{name}".removeprefix(f"{OURS}.") in ALIASES:
                return importlib.import_module(f"{self.__name__}.{name}")
            for target in self._targets:
                module = importlib.import_module(f"{OURS}.{target}".rstrip("."))
                if hasattr(module, name):
                    return getattr(module, name)
            if stand_in_reason(f"{THEIRS}.{self.__name__.removeprefix(f'{OURS}.')}"):
                stand_ins = importlib.import_module("rushlight.names.stand_in")
                found = stand_ins.find_stand_in(self.__name__, name)
                if found is not None:
                    return vars(self).setdefault(name, found)
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return sorted({name for target in self._targets for name in self._names_of(target)})

    def _names_of(self, target: str) -> list[str]:
        return dir(importlib.import_module(f"{OURS}.{target}".rstrip(".")))


class AliasFinder:
    """Makes the modules of `ALIASES`, and modules of stand-ins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own = fullname.removeprefix(f"{OURS}.")
        if own == fullname:
            return None
        if own.startswith("backends.") and self._switches(own) is not None:
            return ModuleSpec(fullname, self, origin="switches")
        if own in ALIASES:
            return ModuleSpec(fullname, self, origin="an alias", is_package=True)
        theirs = f"{THEIRS}.{own}"
        # The list of names is read only for a module of this kind.
        if stand_in_reason(theirs) and importlib.import_module(
            "rushlight.names.stand_in"
        ).is_module(theirs):
            return ModuleSpec(fullname, self, origin="stand-ins", is_package=True)
        return None

    @staticmethod
    def _switches(own: str) -> Any:
        """`backends.cudnn` and others: objects that can be imported too."""
        flags = importlib.import_module(f"{OURS}.backends.flags")
        return flags.SWITCHES.get(own.removeprefix("backends."))

    def create_module(self, spec: ModuleSpec) -> Any:
        own = spec.name.removeprefix(f"{OURS}.")
        if own.startswith("backends."):
            return self._switches(own)
        if own in ALIASES:
            return AliasModule(spec.name, ALIASES[own])
        return importlib.import_module("rushlight.names.stand_in").StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: what the module has is found when it is asked for."""


class TorchFinder:
    """Gives `rushlight` and the modules below it also as `torch` and below."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        if top not in SECOND:
            return None
        own = f"{SECOND[top]}.{rest}".rstrip(".")
        try:
            found = importlib.util.find_spec(own)
        except ModuleNotFoundError:  # its parent is no package
            return None
        if found is None:
            return None
        spec = ModuleSpec(fullname, self, origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        top, _, rest = spec.name.partition(".")
        module = importlib.import_module(f"{SECOND[top]}.{rest}".rstrip("."))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # `import` has given the module the spec of its second name; the first one is the true one.
        given = module.__spec__
        module.__spec__ = given.loader_state if given is not None else None
