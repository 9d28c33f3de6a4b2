"""Source text to native functions: a compiler of this machine, a shared library, its symbols.

In: text and a compiler's command line. Out: bytes of a library, and functions in it. Always true:
code is loaded as long as a function of it is referred to, and unloaded after.
"""

from __future__ import annotations

import _ctypes
import ctypes
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from rushlight.base.errors import BackendError

_ARGUMENTS = (
    ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
)  # fmt: skip


class Library:
    """A loaded shared library; unloaded when nothing refers to it.

    Its file stays as long as it is loaded: a loader knows a library by its inode, and would take
    the next file that gets the same one for this library.
    """

    def __init__(self, binary: bytes) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rushlight-native-")
        path = Path(folder.name) / "kernels.so"
        path.write_bytes(binary)
        self._library = ctypes.CDLL(str(path))
        weakref.finalize(self, _unload, self._library._handle, folder)

    def function(self, name: str) -> NativeFunction:
        return NativeFunction(self, self._library[name])


def _unload(handle: int, folder: tempfile.TemporaryDirectory) -> None:
    close = getattr(_ctypes, "dlclose", None)  # not on Windows
    if close is not None:
        close(handle)
    folder.cleanup()


class NativeFunction:
    """A kernel; it keeps its library loaded."""

    def __init__(self, library: Library, function: ctypes._CFuncPtr) -> None:
        function.argtypes, function.restype = _ARGUMENTS, None
        self._library, self.call = library, function


def compile_library(source: str, suffix: str, command: Sequence[str], who: str) -> bytes:
    """A shared library. `command`: the compiler with its flags; `who`: the backend, for errors."""
    with tempfile.TemporaryDirectory(prefix="rushlight-native-") as folder:
        text, library = Path(folder) / f"kernels{suffix}", Path(folder) / "kernels.so"
        text.write_text(source)
        done = subprocess.run(
            [*command, str(text), "-o", str(library), "-lm"], capture_output=True, text=True
        )
        if done.returncode:
            raise BackendError(f"backend {who}: {command[0]} failed:\n{done.stderr[:4000]}")
        return library.read_bytes()
