"""Records by name, found when used.

Gradient rules name ops of other families (a movement's gradient is a reduction and the other way
round). `late.reduce_sum` finds the record at the call, so the family files import no circle.
"""

from __future__ import annotations

from rushlight.ir.opdef import OpDef, find_op


class _Late:
    def __getattr__(self, name: str) -> OpDef:
        return find_op(name)


late = _Late()
