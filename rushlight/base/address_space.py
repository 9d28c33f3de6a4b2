"""How much address space this process may still take (`ulimit -v`, RLIMIT_AS).

Foreign code that finds no memory may end the process: LLVM does. Who is about to call it asks here
first, and the user gets an error. Without a limit nothing is looked at.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from rushlight.base.errors import OutOfMemoryError

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

_USED = Path("/proc/self/statm")


def require_room(nbytes: int, what: str) -> None:
    """OutOfMemoryError where the limit leaves less than `nbytes` for `what`."""
    if resource is None:
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    try:
        used = int(_USED.read_text().split()[0]) * mmap.PAGESIZE
    except OSError:
        return  # a system that does not say
    if limit - used < nbytes:
        detail = f"{what} may need so much, and of {limit} bytes of address space {used} are taken"
        raise OutOfMemoryError(nbytes, 0, 0, detail)
