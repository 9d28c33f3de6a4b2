"""Sorting and running sums."""

import numpy as np

from workloads import Case

TITLE = "sort and cumsum of 4 million float32"


def cases():
    return {
        "sort rows": {"what": "sort", "shape": (1024, 4096)},
        "sort flat": {"what": "sort", "shape": (4 * 2**20,)},
        "cumsum rows": {"what": "cumsum", "shape": (1024, 4096)},
        "cumsum flat": {"what": "cumsum", "shape": (4 * 2**20,)},
    }


def build(torch, what, shape):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    if what == "cumsum":
        work = {"byte": 8.0 * x.numel()}
        return Case(lambda: torch.cumsum(x, dim=-1), work, tolerance=1e-2)
    work = {"element": float(x.numel())}
    return Case(lambda: list(torch.sort(x, dim=-1, stable=True)), work)
