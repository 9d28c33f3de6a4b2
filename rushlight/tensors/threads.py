"""torch.set_num_threads and get_num_threads. Results do not depend on the number."""

from __future__ import annotations

import os


class _Count:
    threads: int | None = None


def get_num_threads() -> int:
    return _Count.threads or len(os.sched_getaffinity(0))


def set_num_threads(num: int) -> None:
    if not isinstance(num, int) or num < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _Count.threads = num


def get_num_interop_threads() -> int:
    return 1


def set_num_interop_threads(num: int) -> None:
    """Accepted: there is one pool."""
