"""Is there a Metal device, or an emulation of one?

The emulation (RUSHLIGHT_METAL_EMULATION=1) compiles the same text as C++ with g++ or clang++ and
runs it on the host: for tests of the generated kernels, not for speed. It is never chosen by
itself.
"""

from __future__ import annotations

import functools
import shutil

from rushlight.backends.cfamily.compilers import cpu_flags, version_of
from rushlight.backends.metal.driver_impl import find_device, find_matrices
from rushlight.base.config import config
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.compiler.target import Caps, Missing

# Apple GPUs have no doubles; language.py says that they are made of integers.
DTYPES = frozenset(dtype.name for dtype in (*ALL_DTYPES, *BYTE_FLOATS))
MOST_BUFFERS = 31 - 2  # two are taken by numbers and status
THREADS = {"device": 256, "emulation": 64}
COMPILERS = ("g++", "clang++")


def find() -> Caps | Missing:
    if config.metal_emulation:
        compiler = find_compiler()
        if compiler is None:
            return Missing("no C++ compiler for the emulation", "install g++ or clang++")
        said = version_of((compiler,))
        if isinstance(said, Missing):
            return said
        return caps_of("emulation", f"emulated by {compiler}, {said}, on {cpu_flags()}")
    found = find_device()
    if isinstance(found, Missing):
        return found
    return caps_of("device", found, find_matrices())


def caps_of(kind: str, features: str, matrices: int = 8) -> Caps:
    """matrices: Apple's own GPUs multiply 8x8 matrices; others that Macs had do not."""
    return Caps(
        "metal",
        features=features,
        dtypes=DTYPES,
        exact=False,
        group_threads=THREADS[kind],
        shared_bytes=32 << 10,
        subgroup=32,
        matrices=matrices,
        groups=64,
        max_buffers=MOST_BUFFERS,
    )


@functools.cache
def find_compiler() -> str | None:
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)
