"""Square matrix products in float32."""

import numpy as np

from workloads import Case

TITLE = "matrix product, float32"


def cases():
    return {f"n={n}": {"n": n} for n in (256, 512, 1024, 2048)}


def build(torch, n):
    rng = np.random.default_rng(0)
    a = torch.from_numpy(rng.standard_normal((n, n), dtype=np.float32))
    b = torch.from_numpy(rng.standard_normal((n, n), dtype=np.float32))
    return Case(lambda: a @ b, {"flop": 2.0 * n**3})
