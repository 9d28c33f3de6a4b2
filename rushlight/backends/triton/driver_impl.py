"""Which device Triton's kernels run on here, if any. triton is imported here, when it is asked for.

Today that is Triton's interpreter (RUSHLIGHT_TRITON_INTERPRET=1): numpy on the host, for tests of
the generated kernels. Kernels are compiled for GPUs that are not here by `compile_impl.py`.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import version

from rushlight.base.config import config
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.compiler.target import Caps, Missing

FIX = "pip install 'rushlight[triton]'"
INTERPRET = "RUSHLIGHT_TRITON_INTERPRET=1 runs the kernels in Triton's interpreter"
DTYPES = frozenset(dtype.name for dtype in (*ALL_DTYPES, *BYTE_FLOATS))
THREADS = 256
SUBGROUP = 32


def find() -> Caps | Missing:
    if importlib.util.find_spec("triton") is None:
        return Missing("triton is not installed", FIX)
    if not config.triton_interpret:
        return Missing("no launcher for a GPU of this machine", INTERPRET)
    return caps_of(f"interpreted by triton {version('triton')}")


def caps_of(features: str) -> Caps:
    return Caps(
        "triton",
        features=features,
        dtypes=DTYPES,
        exact=False,
        group_threads=THREADS,
        shared_bytes=0,  # blocks have no addresses: tiles lie in scratch
        subgroup=SUBGROUP,
        groups=64,
    )
