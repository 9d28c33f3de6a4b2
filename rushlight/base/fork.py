"""Locks over a fork: the child has one thread, so a lock that another thread held would stay shut.

`hold_over_fork(lock)`: the forking thread waits for the lock first, and both sides let it go after.
Handlers run in reverse order of registration, so a module that takes its lock around another
module's registers later, which follows from importing it.
"""

from __future__ import annotations

import os
from typing import Any


def hold_over_fork(lock: Any) -> Any:
    """The same lock, held by the thread that forks while it forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
