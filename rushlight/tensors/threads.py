"""torch.set_num_threads and get_num_threads. Results do not depend on the number."""

from __future__ import annotations

from rushlight.runtime import threads


def get_num_threads() -> int:
    """How many threads a program may use.

    >>> import rushlight as torch
    >>> torch.get_num_threads() >= 1
    True
    """
    return threads.num_threads()


def set_num_threads(num: int) -> None:
    """Use `num` threads, a positive int, from the next program on."""
    threads.set_num_threads(num)


def get_num_interop_threads() -> int:
    """1: programs run one after another."""
    return 1


def set_num_interop_threads(num: int) -> None:
    """Accepted: there is one pool."""
