"""Python's garbage collector, paused where many objects are made and none of them is garbage.

While a large package is imported, collections walk all that was made so far, again and again: a
tenth of the time of an import. The collection that would make up for it walks everything once more,
so what was made is filed as old at once.
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
            if not gc.get_freeze_count():  # else objects that the user froze would thaw
                gc.freeze()
                gc.unfreeze()
            gc.enable()
