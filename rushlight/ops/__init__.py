"""Every op of the project, each declared once as a record. See README.md for the families."""

from __future__ import annotations

from rushlight.ir.opdef import all_ops
from rushlight.ops import (
    binary,
    indexed,
    movement,
    operators,
    random,
    reduce,
    select,
    unary,
)
from rushlight.ops.meta import Meta

# Names that Python or a module of this package already uses get an underscore.
RESERVED = frozenset("abs all any max min pow range round slice sum random".split())

for _name, _record in all_ops().items():
    globals()[f"{_name}_" if _name in RESERVED else _name] = _record

operators.install()
