"""Map: points are spread over the threads; all values of a point are computed before it stores."""

from __future__ import annotations

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.context import Context
from rushlight.compiler.tile import ir


def lower_map(context: Context, statement: ir.Map) -> c.Block:
    stores = tuple(context.put(st.dest, st.at, st.value, st.mask) for st in statement.stores)
    return context.spread(statement.axes, lambda: (c.Puts(stores),))
