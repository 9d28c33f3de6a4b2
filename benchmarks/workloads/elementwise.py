"""A chain of elementwise operations, which a compiler should make one pass over memory; and one
operation on a large tensor, which shows how results are stored."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "gelu(x * w + 1) * sigmoid(x) + w on 8 million float32"
NUMEL = 8 * 2**20
GOALS = {"eager": ">= 8", "compiled": ">= 1"}
JAX_CASES = ("eager", "compiled", "x * 2, 64 MiB")


def cases():
    chain = {"eager": {"compiled": False}, "compiled": {"compiled": True}}
    return chain | {"x * 2, 64 MiB": {"doubles": True}}


def build_jax(jax, compiled=False, doubles=False):
    """Both cases are one function under `jit`."""
    rng = np.random.default_rng(0)
    if doubles:
        y = jax.numpy.asarray(rng.standard_normal(2 * NUMEL, dtype=np.float32))
        twice = jax.jit(lambda y: y * 2)
        return Case(lambda: twice(y), {"byte": 2.0 * 4 * 2 * NUMEL})
    x, w = (jax.numpy.asarray(rng.standard_normal(NUMEL, dtype=np.float32)) for _ in "xw")

    @jax.jit
    def chain(x, w):
        return jax.nn.gelu(x * w + 1, approximate=False) * jax.nn.sigmoid(x) + w

    return Case(lambda: chain(x, w), {"byte": 12.0 * NUMEL})


def build(torch, compiled=False, doubles=False):
    rng = np.random.default_rng(0)
    if doubles:
        y = from_numpy(torch, rng.standard_normal(2 * NUMEL, dtype=np.float32))
        return Case(lambda: y * 2, {"byte": 2.0 * 4 * 2 * NUMEL})
    x = from_numpy(torch, rng.standard_normal(NUMEL, dtype=np.float32))
    w = from_numpy(torch, rng.standard_normal(NUMEL, dtype=np.float32))

    def chain(x, w):
        return torch.nn.functional.gelu(x * w + 1) * torch.sigmoid(x) + w

    function = torch.compile(chain) if compiled else chain
    # Two reads and one write: what the memory must carry when nothing is stored in between.
    return Case(lambda: function(x, w), {"byte": 12.0 * NUMEL})
