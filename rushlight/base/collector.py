"""Python's garbage collector, paused where many objects are made and none of them is garbage.

While a large package is imported, collections walk all that was made so far, again and again: a
tenth of the time of an import.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection inside, if one could start before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
