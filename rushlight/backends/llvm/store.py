"""An executable as bytes for the disk cache: a JSON header and the object file."""

from __future__ import annotations

import json

from rushlight.backends.llvm import stored
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program


def dump(executable: LlvmExecutable) -> bytes:
    text = json.dumps(stored.record_of(executable), separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + executable.object_bytes


def restore(program: Program, data: bytes, caps: Caps | None = None) -> LlvmExecutable:
    """The executable of `program` from what `dump` wrote; ValueError if it is something else.
    Code for CPUs depends on `caps` no more once it is made."""
    length = int.from_bytes(data[:8], "little")
    return stored.restore(program, json.loads(data[8 : 8 + length]), data[8 + length :])
