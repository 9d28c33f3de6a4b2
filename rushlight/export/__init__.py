"""`torch.export`: a module's program as a graph of calls. The module itself can be called, too."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from rushlight import names as _names
from rushlight.export.dims import Dim
from rushlight.export.file import load, save
from rushlight.export.program import ExportedProgram, export
from rushlight.export.signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
)

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec", "OutputKind",
    "OutputSpec", "export", "load", "save",
]  # fmt: skip


class _Callable(ModuleType):
    """`torch.export(model, args)` is written as often as `torch.export.export`."""

    def __call__(self, *args: Any, **kwargs: Any) -> ExportedProgram:
        return export(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
