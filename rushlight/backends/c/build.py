"""build(programs, caps): C source, a shared library, functions. One source for all programs."""

from __future__ import annotations

import _ctypes
import ctypes
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from rushlight.backends.c.caps import FLAGS, SLOTS, find_compiler
from rushlight.backends.c.language import C
from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_program
from rushlight.backends.cfamily.run import GroupExecutable
from rushlight.backends.cfamily.text import print_programs
from rushlight.base.config import config
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program

_ARGUMENTS = (
    ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
)  # fmt: skip


class Library:
    """A loaded shared library; unloaded when nothing refers to it.

    Its file stays as long as it is loaded: a loader knows a library by its inode, and would take
    the next file that gets the same one for this library.
    """

    def __init__(self, binary: bytes) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rushlight-c-")
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


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    lowered = lower(programs, caps)
    source = print_programs(lowered, C())
    return attach(lowered, source, compile_source(source))


def lower(programs: Sequence[Program], caps: Caps) -> list[ThreadProgram]:
    machine = Machine.of(caps)
    return [lower_program(program, machine, number) for number, program in enumerate(programs)]


def lower_text(program: Program, caps: Caps) -> str:
    """The C source of a program."""
    return print_programs(lower([program], caps), C())


def attach(lowered: Sequence[ThreadProgram], source: str, binary: bytes) -> list[GroupExecutable]:
    library = Library(binary)
    return [
        GroupExecutable(
            one.program, one, tuple(library.function(k.name) for k in one.kernels), source, binary
        )
        for one in lowered
    ]


def compile_source(source: str, flags: Sequence[str] = FLAGS) -> bytes:
    """A shared library from C text."""
    command = find_compiler(config.c_compiler)
    with tempfile.TemporaryDirectory(prefix="rushlight-c-") as folder:
        text, library = Path(folder) / "kernels.c", Path(folder) / "kernels.so"
        text.write_text(source)
        done = subprocess.run(
            [*command, *flags, str(text), "-o", str(library), "-lm"],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise BackendError(f"backend c: {command[0]} failed:\n{done.stderr[:4000]}")
        return library.read_bytes()


def dump(executable: GroupExecutable) -> bytes:
    return executable.binary


def restore(program: Program, data: bytes) -> GroupExecutable:
    """From what `dump` wrote; the program is lowered again, which is quick."""
    machine = Machine.of(Caps("c", groups=SLOTS))
    (found,) = attach([lower_program(program, machine)], "", data)
    return found
