"""Executables as plain data for the disk cache: what is needed besides the object code.

`record_of` gives JSON-able data, `restore` makes the executable again without any compilation.
Sizes are the text form of ir/symint.py over the program's sizes; only arithmetic is read back.
"""

from __future__ import annotations

from typing import Any

from rushlight.backends.llvm.jit import load_object
from rushlight.backends.llvm.types import Launch, LlvmExecutable
from rushlight.base.dtypes import find_dtype
from rushlight.compiler.decisions import Decision
from rushlight.compiler.tile.ir import Program
from rushlight.ir.size_text import parse_size
from rushlight.runtime.packed import Keep

_SIZES = ("instances", "local_bytes", "cost")


def record_of(executable: LlvmExecutable) -> dict[str, Any]:
    """The launches and the scratch of an executable."""
    launches = [
        {
            "symbol": launch.symbol,
            "grain": launch.grain,
            "keeps": [[keep.key, keep.sources, keep.nbytes] for keep in launch.keeps],
            **{name: str(getattr(launch, name)) for name in _SIZES},
        }
        for launch in executable.launches
    ]
    scratch = [[dtype.name, str(size)] for dtype, size in executable.scratch]
    told = [[decision.choice, decision.reasons] for decision in executable.decisions]
    return {"launches": launches, "scratch": scratch, "decisions": told}


def restore(program: Program, record: dict[str, Any], object_bytes: bytes) -> LlvmExecutable:
    """The executable that `record_of` described, from its object code."""
    symbols = [launch["symbol"] for launch in record["launches"]]
    library = load_object(object_bytes, symbols)
    names = {v.name: v for v in program.sizes}
    launches = tuple(
        Launch(
            symbol=launch["symbol"],
            address=library.addresses[launch["symbol"]],
            grain=launch["grain"],
            keeps=tuple(Keep(key, tuple(at), size) for key, at, size in launch["keeps"]),
            **{name: parse_size(launch[name], names) for name in _SIZES},
        )
        for launch in record["launches"]
    )
    scratch = tuple((find_dtype(name), parse_size(size, names)) for name, size in record["scratch"])
    told = tuple(Decision(choice, tuple(reasons)) for choice, reasons in record["decisions"])
    return LlvmExecutable(program, launches, scratch, object_bytes, told, library)
