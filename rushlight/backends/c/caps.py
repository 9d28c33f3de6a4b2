"""Which C compiler there is, and what this machine gives to its programs."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import sys

from rushlight.backends.cfamily.compilers import cpu_flags, version_of
from rushlight.base.config import available_cores, config
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.compiler.target import Caps, Missing

NAMES = ("cc", "gcc", "clang")
# No contraction of a * b + c, no reordering: bits are the program's, not the compiler's.
FLAGS = (
    "-std=gnu11", "-O2", "-ftree-vectorize", "-fwrapv", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fPIC", "-shared",
)  # fmt: skip
# GCC's -O2 leaves many loops without vectors, ziglang refuses the option.
MORE_VECTORS = "-fvect-cost-model=dynamic"
SLOTS = 16  # groups with scratch of their own: more than threads, and no more memory than that


def find() -> Caps | Missing:
    command = find_compiler(config.c_compiler)
    if not command:
        named = (
            f"{config.c_compiler!r} of RUSHLIGHT_CC" if config.c_compiler else "cc, gcc or clang"
        )
        return Missing(f"no C compiler ({named})", "install gcc or clang, or pip install ziglang")
    said = version_of(command[:-1])
    if isinstance(said, Missing):
        return said
    threads = config.num_threads or available_cores()
    return Caps(
        "c",
        features="|".join((*command, said, *FLAGS, cpu_flags())),
        threads=threads,
        dtypes=frozenset(dtype.name for dtype in (*ALL_DTYPES, *BYTE_FLOATS)),
        groups=SLOTS,
    )


@functools.cache
def find_compiler(wanted: str) -> tuple[str, ...]:
    """The command, the flag for this CPU last; () if there is none."""
    names = (wanted,) if wanted else NAMES
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return (path, MORE_VECTORS, "-march=native")
    if not wanted and importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc", "-mcpu=native")
    return ()
