"""Softmax over the rows of a matrix."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "softmax of 4096 rows of 4096 float32"
GOALS = {"rows": ">= 4"}
JAX_CASES = ("rows",)


def cases():
    return {"rows": {}}


def build_jax(jax):
    rng = np.random.default_rng(0)
    x = jax.numpy.asarray(rng.standard_normal((4096, 4096), dtype=np.float32))
    softmax = jax.jit(lambda x: jax.nn.softmax(x, axis=-1))
    return Case(lambda: softmax(x), {"byte": 8.0 * x.size})


def build(torch):
    rng = np.random.default_rng(0)
    x = from_numpy(torch, rng.standard_normal((4096, 4096), dtype=np.float32))
    return Case(lambda: torch.softmax(x, dim=-1), {"byte": 8.0 * x.numel()})
