"""`linear` with weights that do not change (inference): few rows, and those of a prompt."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "linear, weights that do not change"
ROWS, SHAPES = (8, 32, 256), ((2048, 2048), (1536, 576), (49152, 576))


def cases():
    return {
        f"{dtype} {rows}x{k} to {n}": {"shape": (rows, n, k), "dtype": dtype}
        for dtype in ("float32", "bfloat16")
        for n, k in SHAPES
        for rows in ROWS
    }


def build(torch, shape, dtype):
    rng = np.random.default_rng(0)
    m, n, k = shape
    x, w = (
        from_numpy(torch, rng.standard_normal(size, dtype=np.float32)).to(getattr(torch, dtype))
        for size in ((m, k), (n, k))
    )
    what, tolerance = ("flop", 1e-3) if dtype == "float32" else ("bfloat16 flop", 1e-2)
    linear = torch.nn.functional.linear
    return Case(lambda: linear(x, w), {what: 2.0 * m * n * k}, lambda y: y.float(), tolerance)
