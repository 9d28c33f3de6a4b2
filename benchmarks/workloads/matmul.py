"""Square matrix products, and a long one as in a transformer (2048 tokens, width 1024 to 256)."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "matrix product"
SIZES = (256, 512, 1024, 2048)
LONG = (2048, 256, 1024)
GOALS = {
    **{f"float32 n={n}": ">= 1.0" if n < 2048 else ">= 0.95" for n in SIZES},
    **{f"bfloat16 n={n}": ">= 1.0" if n < 1024 else ">= 1.5" for n in SIZES},
}


# Code for any size serves these, as a layer of another size or the last batch does.
VARYING, OTHERS = ((256, 256, 256), (256, 768, 2048), (700, 700, 700)), ((300,) * 3, (20, 30, 40))


def cases():
    dtypes = ("float32", "bfloat16")
    bytes_ = {f"int8 n={n}": {"shape": (n, n, n), "dtype": "int8"} for n in SIZES}
    squares = {f"{d} n={n}": {"shape": (n, n, n), "dtype": d} for d in dtypes for n in SIZES}
    long = {f"{d} {'x'.join(map(str, LONG))}": {"shape": LONG, "dtype": d} for d in dtypes}
    varying = {
        f"float32 {'x'.join(map(str, shape))} after others": {
            "shape": shape, "dtype": "float32", "before": OTHERS,
        }
        for shape in VARYING
    }  # fmt: skip
    return squares | long | varying | bytes_


def build(torch, shape, dtype, before=()):
    """`before`: shapes of products that were computed already, so that sizes are known to vary."""
    for other in before:
        a, b = operands(torch, other, dtype)
        (a @ b).numpy()
    m, n, k = shape
    a, b = operands(torch, shape, dtype)
    if dtype == "int8":
        return Case(lambda: torch._int_mm(a, b), {"int8 operation": 2.0 * m * n * k}, None, 0.0)
    what, tolerance = ("flop", 1e-3) if dtype == "float32" else ("bfloat16 flop", 1e-2)
    return Case(lambda: a @ b, {what: 2.0 * m * n * k}, lambda y: y.float(), tolerance)


def operands(torch, shape, dtype):
    rng = np.random.default_rng(0)
    m, n, k = shape
    sizes = (m, k), (k, n)
    if dtype == "int8":
        return [from_numpy(torch, rng.integers(-128, 128, size, np.int8)).clone() for size in sizes]
    return [
        from_numpy(torch, rng.standard_normal(size, dtype=np.float32)).to(getattr(torch, dtype))
        for size in sizes
    ]
