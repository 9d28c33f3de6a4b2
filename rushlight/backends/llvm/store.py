"""An executable as bytes for the disk cache: a JSON header and the object file.

The symbols of the launches are looked up in the object when it is loaded again.
"""

from __future__ import annotations

import json
from typing import Any

from rushlight.backends.llvm.build import attach
from rushlight.backends.llvm.types import Launch, LlvmExecutable
from rushlight.base.dtypes import find_dtype
from rushlight.compiler.tile.ir import Program
from rushlight.ir.symint_data import from_data, to_data


def dump(executable: LlvmExecutable) -> bytes:
    header = {
        "launches": [_launch_data(launch) for launch in executable.launches],
        "scratch": [[dtype.name, to_data(size)] for dtype, size in executable.scratch],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + executable.object_bytes


def restore(program: Program, data: bytes) -> LlvmExecutable:
    """The executable of `program` from what `dump` wrote; ValueError if it is something else."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    launches = tuple(_launch(item) for item in header["launches"])
    scratch = tuple((find_dtype(name), from_data(size)) for name, size in header["scratch"])
    (executable,) = attach([LlvmExecutable(program, launches, scratch)], data[8 + length :])
    return executable


def _launch_data(launch: Launch) -> list[Any]:
    sizes = (launch.instances, launch.local_bytes, launch.cost)
    return [launch.symbol, launch.grain, *(to_data(size) for size in sizes)]


def _launch(data: list[Any]) -> Launch:
    symbol, grain, instances, local_bytes, cost = data
    return Launch(
        str(symbol), 0, from_data(instances), from_data(local_bytes), int(grain), from_data(cost)
    )
