"""`install_as_torch()`: programs that say `import torch` get Rushlight.

    import rushlight
    rushlight.install_as_torch()        # for the rest of the process
    import torch                        # this is rushlight

    with rushlight.install_as_torch():  # inside the block only
        import torch

    import rushlight.as_torch           # the same in one line

A PyTorch that is installed too stays untouched. Its modules that were imported before are put
aside while the block runs and come back after it.
"""

from __future__ import annotations

import sys
from types import ModuleType, TracebackType

from rushlight.names import metadata
from rushlight.names.finder import OURS, SECOND, THEIRS, TorchFinder


class _Interposed(TorchFinder):
    """The finder that is on `sys.meta_path`; importlib.metadata asks it too."""

    find_distributions = staticmethod(metadata.find_distributions)


class Installed:
    """What `install_as_torch` gives: a context manager; `remove()` ends it by hand."""

    def __init__(self) -> None:
        self._finder = _Interposed()
        self._aside = _take_modules()
        sys.meta_path.insert(0, self._finder)
        _call_it(THEIRS)

    def remove(self) -> None:
        """`import torch` finds again what it found before."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
            _take_modules()
            sys.modules.update(self._aside)
            _call_it(THEIRS if is_installed() else OURS)

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.remove()


def _call_it(name: str) -> None:
    """Programs that patch PyTorch look at its name; others tell whose a tensor is by the module of
    its class."""
    package = sys.modules[OURS]
    package.__name__ = package.Tensor.__module__ = name


def _take_modules() -> dict[str, ModuleType]:
    """Take `torch` and all below it out of `sys.modules`."""
    names = [name for name in sys.modules if name.partition(".")[0] in SECOND]
    return {name: sys.modules.pop(name) for name in names}


def is_installed() -> bool:
    """Does `import torch` find Rushlight now?"""
    return any(isinstance(finder, TorchFinder) for finder in sys.meta_path)


def install_as_torch() -> Installed:
    """From now on `import torch` and all below it find Rushlight.

    Gives a context manager: at the end of its block `torch` is what it was before. Without a block
    it holds for the rest of the process, or until `remove()` is called. Calls may be nested.

    >>> import rushlight
    >>> with rushlight.install_as_torch():
    ...     import torch
    ...     import torch.nn.functional as F
    >>> torch is rushlight, F is rushlight.nn.functional
    (True, True)
    """
    return Installed()
