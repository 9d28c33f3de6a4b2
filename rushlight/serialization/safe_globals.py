"""Classes and functions that the user lets `weights_only=True` load, besides the allow-list."""

from __future__ import annotations

import os
import pickle
import pickletools
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from typing import Any, BinaryIO

from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.rebuild import ALLOWED
from rushlight.serialization.source import Source
from rushlight.serialization.zip_read import ZipReader

PACKAGE, TORCH = "rushlight", "torch"
MARKED: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let files name these classes and functions, or (object, full name) pairs.

    Example:
        >>> import fractions
        >>> add_safe_globals([fractions.Fraction])
        >>> get_safe_globals()
        [<class 'fractions.Fraction'>]
        >>> clear_safe_globals()
    """
    MARKED.extend(item for item in safe_globals if item not in MARKED)


def get_safe_globals() -> list[Any]:
    """Return what was added."""
    return list(MARKED)


def clear_safe_globals() -> None:
    """Forget what was added."""
    MARKED.clear()


class safe_globals:
    """Let files name more classes and functions within a `with` block."""

    def __init__(self, safe_globals: list[Any]) -> None:
        """Take what `add_safe_globals` takes."""
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        MARKED[:] = [item for item in MARKED if item not in self.safe_globals]


def marked_names() -> dict[str, Any]:
    """Return what was added by full name; ours under PyTorch's names too, as files have them."""
    found: dict[str, Any] = {}
    for item in MARKED:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    "Expected tuple of length 2 (global, str of callable full path), but got "
                    f"tuple of length: {len(item)}"
                )
            value, name = item
            if type(name) is not str:
                raise TypeError(
                    "Expected second item in tuple to be str of callable full path, but got: "
                    f"{type(name)}"
                )
            found[name] = value
            continue
        found[f"{item.__module__}.{item.__qualname__}"] = item
        if item.__module__.split(".")[0] == PACKAGE:
            found[f"{TORCH}{item.__module__[len(PACKAGE) :]}.{item.__qualname__}"] = item
    return found


def modern_name(module: str, name: str) -> tuple[str, str]:
    """Return Python 3's name for one of Python 2, which pickles of protocol 2 hold."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | BinaryIO) -> list[str]:
    """Return the names in a file of `torch.save` that `weights_only=True` would refuse now."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    source = Source(f)
    if not source.peek(4).startswith(b"PK\x03\x04"):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    data = bytes(ZipReader(source).read("data.pkl"))
    known = {*ALLOWED, *marked_names()}
    return sorted(names_in(data) - known)


def names_in(data: bytes) -> set[str]:
    """Return all full names in a pickle, which is not run."""
    found = set()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL":
                found.add(".".join(modern_name(*argument.split(" ", 1))))
            elif opcode.name in ("STACK_GLOBAL", "INST"):
                raise pickle.UnpicklingError(f"Unsupported operand {ord(opcode.code)}")
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"the pickle is damaged: {error}") from error
    return found
