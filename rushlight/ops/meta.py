"""What a gradient rule may know about its call without keeping a value alive.

Comes in: the Call, the output's shape and dtype, the names of operands that need a gradient.
Goes out: shapes and dtypes. Always true: no Node and no buffer is held, so asking `meta` for a
shape saves nothing for backward.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.ir.opdef import Call


class Meta:
    """Shapes, dtypes and needs of one call. A variadic operand answers with a list."""

    __slots__ = ("out_shape", "out_dtype", "_shapes", "_dtypes", "_needs")

    out_shape: tuple[Any, ...]
    out_dtype: DType

    def __init__(
        self,
        call: Call,
        out_shape: tuple[Any, ...],
        out_dtype: DType,
        needed: Collection[str] | None = None,
    ) -> None:
        """`needed` None: every operand needs its gradient. The Call may hold Nodes or Tensors."""
        self.out_shape, self.out_dtype = tuple(out_shape), out_dtype
        self._shapes: dict[str, Any] = {}
        self._dtypes: dict[str, Any] = {}
        for param in call.op.params:
            arg = call.named[param.name]
            if param.is_attr or arg is None:
                continue
            if param.variadic:
                self._shapes[param.name] = [tuple(item.shape) for item in arg]
                self._dtypes[param.name] = [item.dtype for item in arg]
            else:
                self._shapes[param.name] = tuple(arg.shape)
                self._dtypes[param.name] = arg.dtype
        self._needs = frozenset(self._shapes if needed is None else needed)

    def shape(self, name: str) -> Any:
        return self._shapes[name]

    def dtype(self, name: str) -> Any:
        return self._dtypes[name]

    def ndim(self, name: str) -> int:
        return len(self._shapes[name])

    def has(self, name: str) -> bool:
        """True when the operand was given (not None)."""
        return name in self._shapes

    def needs(self, name: str) -> bool:
        """True when the operand was given and its gradient is asked for."""
        return name in self._needs and name in self._shapes

    def has_narrow(self) -> bool:
        given = [self.out_dtype]
        for dtype in self._dtypes.values():
            given.extend(dtype if isinstance(dtype, list) else [dtype])
        return any(d.compute is not d for d in given)

    def widened(self) -> Meta:
        """The same call with bfloat16 and float16 read as float32."""
        wide = copy.copy(self)
        wide.out_dtype = self.out_dtype.compute
        wide._dtypes = {
            name: [d.compute for d in dtype] if isinstance(dtype, list) else dtype.compute
            for name, dtype in self._dtypes.items()
        }
        return wide
