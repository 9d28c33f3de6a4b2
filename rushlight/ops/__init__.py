"""Every op of the project, each declared once as a record. See README.md for the families.

>>> from rushlight.ops import softmax, exp      # records; call them on Nodes or Tensors
"""

from __future__ import annotations

from rushlight.ops import (  # noqa: F401
    activation,
    attention,
    batch_norms,
    binary,
    bits,
    classification,
    complex,
    conv,
    conv_transpose,
    device,
    diagonals,
    distance,
    divisors,
    draws,
    eigen,
    factor,
    fft,
    fold,
    indexed,
    indexing,
    jacobians,
    ldl,
    linalg,
    lookup,
    loss,
    movement,
    norms,
    operators,
    pair_bins,
    pairs,
    pointwise,
    pool,
    products,
    random,
    reduce,
    reductions,
    resize,
    select,
    shape,
    sizes,
    softmaxes,
    special,
    split_attention,
    statistics,
    time_loop,
    unary,
    whole_factors,
    window,
)

# Written by tools/make_ops_stub.py: every record by name, so that readers and checkers see it.
from rushlight.ops._generated_names import *  # noqa: F403
from rushlight.ops.aten import aten  # noqa: F401
from rushlight.ops.build import full, zeros  # noqa: F401
from rushlight.ops.einstein import einsum  # noqa: F401
from rushlight.ops.meta import Meta  # noqa: F401
from rushlight.ops.user_spaces import find_space as __getattr__  # noqa: F401  (torch.ops.space)

operators.install()
