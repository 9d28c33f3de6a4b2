"""Sorting, the largest of a row, and running sums."""

import numpy as np

from workloads import Case, from_numpy

TITLE = "sort, topk and cumsum of 8 million float32"
ROWS, COLUMNS = 1024, 8192
K = 64
GOALS = {"sort rows": ">= 5", "topk rows": ">= 1.5", "cumsum rows": ">= 2.5"}


def cases():
    flat = (ROWS * COLUMNS,)
    return {
        "sort rows": {"what": "sort", "shape": (ROWS, COLUMNS)},
        "sort flat": {"what": "sort", "shape": flat},
        "topk rows": {"what": "topk", "shape": (ROWS, COLUMNS)},
        "topk columns": {"what": "topk columns", "shape": (COLUMNS, ROWS)},
        "cumsum rows": {"what": "cumsum", "shape": (ROWS, COLUMNS)},
        "cumsum columns": {"what": "cumsum columns", "shape": (COLUMNS, ROWS)},
        "cumsum flat": {"what": "cumsum", "shape": flat},
    }


def build(torch, what, shape):
    x = from_numpy(torch, np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    work = {"element": float(x.numel())}
    dim = 0 if what.endswith("columns") else -1
    if what.startswith("cumsum"):
        work = {"byte": 8.0 * x.numel()}
        return Case(lambda: torch.cumsum(x, dim=dim), work, tolerance=1e-2)
    if what.startswith("topk"):
        # Which of two equal values comes first is not defined: the values alone are compared.
        values = lambda result: result[:1]  # noqa: E731
        return Case(lambda: list(torch.topk(x, K, dim=dim)), {"byte": 4.0 * x.numel()}, values)
    return Case(lambda: list(torch.sort(x, dim=-1, stable=True)), work)
