"""Numbers made of sizes.

In: sizes. Out: a 0-dim value. Gradient rules run when a call is recorded, with sizes that are
plain ints: as attributes of a node they may be other ones in the next call of the same program,
where a constant would ask for a program of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.base.dtypes import float32, int64
from rushlight.ir.opdef import Attr, NotDifferentiable, Sizes
from rushlight.ops.build import size_value
from rushlight.ops.composite import composite
from rushlight.ops.indexed import dtype_attr
from rushlight.ops.samples import Sample


def _product(sizes: tuple, dtype: Any) -> Any:
    count: Any = 1
    for size in sizes:
        count = count * size
    return size_value(count, dtype)


size_product = composite(
    "size_product",
    "The product of some sizes.",
    (Sizes("sizes"), Attr("dtype", int64)),
    _product,
    lambda sizes, dtype: np.asarray(math.prod(sizes)).astype(dtype.np),
    NotDifferentiable("it has no operand"),
    shape=lambda call: (),
    dtype=dtype_attr,
    compute_f32=False,
    promote="none",
    cheap=True,
    samples=lambda rng: [
        Sample((), {"sizes": (3, 4), "dtype": float32}),
        Sample((), {"sizes": (), "dtype": int64}),
        Sample((), {"sizes": (2, 0), "dtype": int64}),
    ],
)
