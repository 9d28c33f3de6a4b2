"""Random numbers in workers: by the pass and the sample, not by the worker.

Each sample of a map dataset starts from a seed made of the seed of the pass and the sample's number
in it. So what a sample draws does not depend on how many workers there are or which one reads it. A
library whose state `worker_init_fn` set is left alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import rushlight as torch

MASK = (1 << 64) - 1


def mixed(*numbers: int) -> int:
    """A 63-bit number that differs in about half of its bits when one argument changes by one."""
    state = 0
    for number in numbers:  # the steps of splitmix64 (Steele et al. 2014)
        state = (state + 0x9E3779B97F4A7C15 + (number & MASK)) & MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return state >> 1


def seed_numpy(seed: int) -> None:
    np.random.seed(seed & 0xFFFFFFFF)


SEEDERS: dict[str, Callable[[int], Any]] = {
    "random": random.seed,
    "numpy": seed_numpy,
    "torch": torch.manual_seed,
}


def states() -> dict[str, str]:
    """Where each library's generator is, in a form that can be compared."""
    return {
        "random": repr(random.getstate()),
        "numpy": repr([np.asarray(part).tolist() for part in np.random.get_state()]),
        "torch": repr(torch.get_rng_state().tolist()),
    }


def seed_all(seed: int, names: Iterable[str]) -> None:
    """Start the generators of the named libraries anew."""
    for name in names:
        SEEDERS[name](seed)
