"""Traced modules in files: the example inputs are kept, a file is made of an export for them."""

from __future__ import annotations

import io
import weakref
import zipfile
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.base.errors import NotSupportedError

Example = tuple[tuple, dict[str, Any]]
_FUNCTIONS: weakref.WeakKeyDictionary[Any, Example] = weakref.WeakKeyDictionary()


class ScriptModule(torch.nn.Module):
    """A module: scripted modules are modules here. `trace` makes instances of it."""


class TracedModule(ScriptModule):
    """What a traced module has besides its own class."""

    _example: Example

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the module; `torch.jit.load` gives it back."""
        save(self, f, _extra_files)


class _FunctionModule(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def with_example(func: Any, inputs: Any, kwargs: Any) -> Any:
    """The module as one that can be saved: it shares all that it holds with the one given."""
    if inputs is None and not kwargs:
        return func
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs or ())
    example: Example = (inputs, dict(kwargs or {}))
    if not isinstance(func, torch.nn.Module):
        try:
            _FUNCTIONS[func] = example
        except TypeError:  # no weak references to it: it cannot be saved
            pass
        return func
    kind = type(func)
    if issubclass(kind, TracedModule):
        kind = kind.__mro__[2]
    made_kind = type(kind.__name__, (TracedModule, kind), {"_example": example})
    made_kind.__module__, made_kind.__qualname__ = kind.__module__, kind.__qualname__
    made = object.__new__(made_kind)
    made.__dict__ = func.__dict__
    return made


def save(m: Any, f: Any, extra_files: dict[str, Any] | None) -> None:
    """Export for the example, and write that."""
    if isinstance(m, TracedModule):
        module, example = m, m._example
    elif not isinstance(m, torch.nn.Module) and m in _FUNCTIONS:
        module, example = _FunctionModule(m), _FUNCTIONS[m]
    else:
        raise NotSupportedError(
            "torch.jit.save: only what torch.jit.trace gave can be saved: script keeps no inputs, "
            "from which a graph could be made. Trace it with an example, or use torch.export"
        )
    torch.export.save(torch.export.export(module, *example), f, extra_files=extra_files)


def load(f: Any, map_location: Any, extra_files: dict[str, Any] | None) -> Any:
    """Read a program, and give its module."""
    file = f if hasattr(f, "read") else open(f, "rb")  # noqa: SIM115  (closed below)
    try:
        data = io.BytesIO(file.read())
    finally:
        if file is not f:
            file.close()
    if any(name.endswith("/constants.pkl") for name in _names(data)):
        raise NotSupportedError(
            "torch.jit.load: this is a TorchScript archive, a program in another language. "
            "Load the state_dict of the model, or export it with torch.export"
        )
    data.seek(0)
    program = torch.export.load(data, extra_files=extra_files)
    module = program.module()
    if map_location is not None:
        module.to(map_location)
    return with_example(module, *program.example_inputs)


def _names(data: io.BytesIO) -> list[str]:
    """The records of an archive; of what is no whole one, none: export.load says what is wrong."""
    try:
        return zipfile.ZipFile(data).namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return []
