"""Generated text as a Python module: Triton and CuTe read the source of a function from its file.

In: text. Out: a module. Always true: a file's name is a hash of its text, so that the same text is
the same file; what runs is the text, whatever lies in the file. Where the cache's folder cannot be
used (it is read-only, or not ours alone), files lie in a folder of this process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path
from types import ModuleType

from rushlight.runtime.cache import disk_cache

_TEMPORARY = tempfile.TemporaryDirectory(prefix="rushlight-modules-")


def load_module(text: str) -> ModuleType:
    """The module that a text is."""
    name = f"kernels_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    path = _file_of(f"{name}.py", text.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Not by its loader, which would take bytecode that lies beside the file.
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def _file_of(name: str, data: bytes) -> Path:
    disk = disk_cache()
    if disk is not None and disk.usable:
        try:
            return _written(disk.directory / "modules" / name, data)
        except OSError:
            pass  # read-only, or full
    return _written(Path(_TEMPORARY.name) / name, data)


def _written(path: Path, data: bytes) -> Path:
    """The file, which is written where it is not there or damaged."""
    if path.exists() and path.read_bytes() == data:
        return path
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, made = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(made, path)
    return path
