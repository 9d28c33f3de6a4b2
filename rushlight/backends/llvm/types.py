"""What the backend hands to the runtime: launches and executables. No LLVM in this file.

A launch is a native function
    void k(i64 begin, i64 end, ptr bufs, ptr ints, ptr scalars, ptr local, ptr status)
that runs the instances begin <= id < end. bufs: an array of data pointers in the order of
program.buffers, then executable.scratch, then `keeps`. ints: i64 in the order of program.sizes.
scalars: 8-byte slots in the order of program.params, the value's own bits in the low bytes (a bool
is 0 or 1).
local: `local_bytes` of memory private to the thread, aligned to 64 bytes. status: one i64, set to
the site number of a failed index check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.compiler.decisions import Decision
from rushlight.compiler.tile.ir import Program
from rushlight.ir.symint import Expr
from rushlight.runtime.packed import Keep

Scratch = tuple[DType, int | Expr]


@dataclass(frozen=True)
class Launch:
    """One grid of an executable. Launches run in order; each waits for the one before.

    address      of the native function; 0 in a launch that is not loaded yet
    instances    how many; an int or an Expr over program.sizes
    local_bytes  scratch of one thread, likewise
    grain        how many neighbouring instances make one unit of work for a thread
    cost         a hint: about how many scalar operations one instance is
    keeps        panels that may stay (kept.py): further pointers, in a program of this launch alone
    """

    symbol: str
    address: int
    instances: int | Expr
    local_bytes: int | Expr = 0
    grain: int = 1
    cost: int | Expr = 1
    keeps: tuple[Keep, ...] = ()


@dataclass(frozen=True, eq=False)
class LlvmExecutable:
    """A compiled program. The code stays loaded while `library` is referred to.

    object_bytes is the object file that holds the symbols of the launches.
    decisions: what was measured to choose its schedule (tune.py).
    """

    program: Program
    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()
    object_bytes: bytes = b""
    decisions: tuple[Decision, ...] = ()
    library: Any = field(default=None, repr=False)
