"""Cost against size: the same work on twice as much each time, so that a wrong slope is seen.

The report puts the growth of a time beside the growth of its work. Small sizes show the overhead of
a call, sizes about the caches' the step from one memory to the next.
"""

import numpy as np

from workloads import Case, from_numpy

TITLE = "cost against size, rows of 1024 float32"
WIDTH = 1024
COUNTS = tuple(16 << i for i in range(9))


def cases():
    return {f"{name} n={n}": {"name": name, "n": n} for name in MAKERS for n in COUNTS}


def build(torch, name, n):
    x = from_numpy(torch, np.random.default_rng(0).standard_normal((n, WIDTH), dtype=np.float32))
    run = MAKERS[name]
    return Case(lambda: run(torch, x), {"byte": 8.0 * x.numel()}, tolerance=1e-2)


MAKERS = {
    "add": lambda torch, x: x + 1,
    "softmax": lambda torch, x: torch.softmax(x, -1),
    "cumsum": lambda torch, x: torch.cumsum(x, 0),
    "sort": lambda torch, x: torch.sort(x, -1).values,
}
