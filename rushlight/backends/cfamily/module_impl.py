"""Generated text as a Python module: Triton and CuTe read the source of a function from its file.

In: text. Out: a module. Always true: a file's name is a hash of its text, so that the same text is
the same file, and a file is whole when it has its name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path
from types import ModuleType

from rushlight.base.config import config


def folder() -> Path:
    found = Path(config.cache_dir) / "modules" if config.cache else Path(_TEMPORARY.name)
    found.mkdir(parents=True, exist_ok=True)
    return found


_TEMPORARY = tempfile.TemporaryDirectory(prefix="rushlight-modules-")


def load_module(text: str) -> ModuleType:
    """The module that a text is."""
    name = f"kernels_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    path = folder() / f"{name}.py"
    if not path.exists():
        handle, made = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(made, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
