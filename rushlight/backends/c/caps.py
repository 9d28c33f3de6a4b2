"""Which C compiler there is, and what this machine gives to its programs."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

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
    said = version_of(command)
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


@functools.cache
def version_of(command: tuple[str, ...]) -> str | Missing:
    """What the compiler says it is."""
    try:
        done = subprocess.run([*command[:-1], "--version"], capture_output=True, text=True)
    except OSError as error:
        return Missing(f"the C compiler {command[0]} does not start: {error}")
    if done.returncode:
        return Missing(f"the C compiler {command[0]} fails: {done.stderr.strip()[:200]}")
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


@functools.cache
def cpu_flags() -> str:
    """Stands for the instructions of this CPU: code for another one must not be found."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    found = sorted({line for line in lines if line.startswith(("flags", "Features", "isa"))})
    return platform.machine() + hashlib.sha256("".join(found).encode()).hexdigest()[:16]
