"""Read any pickle, running what it says: `weights_only=False`, for trusted files only.

In: a pickle. Out: the object. PyTorch's names stand for ours, so files of either one load.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from typing import Any

from rushlight.serialization.errors import CLEAR, CorruptFileError, UnsupportedObjectError
from rushlight.serialization.rebuild import ALLOWED
from rushlight.serialization.unpickle import DAMAGE

PACKAGE, TORCH = "rushlight", "torch"


def load_all(
    file: Any, persistent_load: Callable[[Any], Any], module: Any, options: dict[str, Any]
) -> Any:
    """Read one pickle with the Unpickler of a module like `pickle`."""

    def find_class(self: Any, module_name: str, name: str) -> Any:
        value, call = ALLOWED.get(f"{module_name}.{name}", (None, None))
        if value is not None or call is not None:
            return value
        if module_name.split(".")[0] == TORCH:
            return our_class(module_name, name)
        return module.Unpickler.find_class(self, module_name, name)

    methods = {
        "find_class": find_class,
        "persistent_load": lambda self, key: persistent_load(key),
    }
    kind = type("StorageUnpickler", (module.Unpickler,), methods)
    try:
        return kind(file, **{"encoding": "utf-8", **options}).load()
    except (pickle.UnpicklingError, *CLEAR):
        raise
    except (EOFError, ValueError, IndexError, KeyError, MemoryError) as error:
        if not isinstance(error, DAMAGE):
            raise
        raise CorruptFileError(f"the pickle is damaged: {error!r:.300}") from error


def our_class(module_name: str, name: str) -> Any:
    """Return Rushlight's class or function of a name of PyTorch."""
    try:
        found = importlib.import_module(PACKAGE + module_name[len(TORCH) :])
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UnsupportedObjectError(
            f"the file needs {module_name}.{name}, which is not here"
        ) from (error)
    return found
