"""Every op of the project, each declared once as a record. See README.md for the families.

>>> from rushlight.ops import softmax, exp      # records; call them on Nodes or Tensors
"""

from __future__ import annotations

from rushlight.ir.opdef import all_ops
from rushlight.ops import (  # noqa: F401
    activation,
    attention,
    batch_norms,
    binary,
    classification,
    complex,
    conv,
    conv_transpose,
    diagonals,
    distance,
    draws,
    factor,
    indexed,
    indexing,
    linalg,
    lookup,
    loss,
    movement,
    norms,
    operators,
    pointwise,
    pool,
    products,
    random,
    reduce,
    reductions,
    resize,
    select,
    shape,
    softmaxes,
    special,
    statistics,
    unary,
    window,
)
from rushlight.ops.build import full, zeros  # noqa: F401
from rushlight.ops.einstein import einsum  # noqa: F401
from rushlight.ops.meta import Meta  # noqa: F401

# Names that Python uses get an underscore.
RESERVED = frozenset("abs all any complex max min pow range round slice sum".split())


def public_name(op_name: str) -> str:
    """The name of an op in this module."""
    return f"{op_name}_" if op_name in RESERVED else op_name


# Type checkers read the same names from __init__.pyi, which tools/make_ops_stub.py writes.
globals().update({public_name(name): record for name, record in all_ops().items()})

operators.install()
