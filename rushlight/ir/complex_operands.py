"""Complex operands: which ops take them, and how the others refuse.

In: a bound call. Out: nothing, or PyTorch's error for an op without a kernel for the dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.base.dtypes import DType

if TYPE_CHECKING:
    from rushlight.ir.opdef import Call

TAKES_COMPLEX = frozenset(("movement", "gather", "scatter", "dot", "host", "complex"))
# Calls of composites on complex operands that were tried.
_TAKEN: set[tuple] = set()


def refusal(name: str, dtype: DType, text: Any = None) -> str:
    """PyTorch's text for an op that has no kernel for a dtype (`text`: or names it, in quotes)."""
    if text and not text.startswith('"'):
        return text
    kernel = text or f'"{name.strip("_")}_cpu"'
    return f"{kernel} not implemented for '{dtype.scalar_name}'"


def check_complex(call: Call) -> None:
    """Refuse complex operands that the op is not for (PyTorch's error).

    A composite is tried: the primitives of its decomposition know.
    """
    op = call.op
    complex_ones = [node.dtype for node in call.src if node.dtype.kind == "complex"]
    if not complex_ones or op.kind in TAKES_COMPLEX or callable(op.pair):
        return
    if op.decompose is None or op.pair is not None:
        raise NotImplementedError(refusal(op.name, complex_ones[0], op.pair))
    key = (op.name, call.attrs, tuple([(node.shape, node.dtype) for node in call.src]))
    if key in _TAKEN:
        return
    try:
        op.decompose(**call.named)
    except NotImplementedError as error:
        raise NotImplementedError(refusal(op.name, complex_ones[0])) from error
    if len(_TAKEN) > 4096:
        _TAKEN.clear()
    _TAKEN.add(key)
