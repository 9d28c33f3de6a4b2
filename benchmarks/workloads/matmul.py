"""Square matrix products."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "matrix product"
SIZES = (256, 512, 1024, 2048)
GOALS = {
    **{f"float32 n={n}": ">= 1.0" if n < 2048 else ">= 0.95" for n in SIZES},
    **{f"bfloat16 n={n}": ">= 1.0" if n < 1024 else ">= 1.5" for n in SIZES},
}


def cases():
    dtypes = ("float32", "bfloat16")
    return {f"{d} n={n}": {"n": n, "dtype": d} for d in dtypes for n in SIZES}


def build(torch, n, dtype):
    rng = np.random.default_rng(0)
    a, b = (
        from_numpy(torch, rng.standard_normal((n, n), dtype=np.float32)).to(getattr(torch, dtype))
        for _ in range(2)
    )
    what, tolerance = ("flop", 1e-3) if dtype == "float32" else ("bfloat16 flop", 1e-2)
    return Case(lambda: a @ b, {what: 2.0 * n**3}, lambda y: y.float(), tolerance)
