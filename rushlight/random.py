"""torch.random: the generator functions of the top level, and fork_rng."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.tensors.namespace import TABLE

manual_seed = TABLE["manual_seed"]
seed = TABLE["seed"]
initial_seed = TABLE["initial_seed"]
get_rng_state = TABLE["get_rng_state"]
set_rng_state = TABLE["set_rng_state"]


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, device_type: str = "cpu"
) -> Iterator[None]:
    """The random state at the end is what it was before."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
