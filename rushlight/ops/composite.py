"""How composites are declared: decompositions, and gradients in float32 for narrow floats.

A decomposition takes the operands and values by position and the attributes by name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from rushlight.base.dtypes import bfloat16, complex32, float16
from rushlight.ir.arguments import parameter_names
from rushlight.ir.opdef import FROM_DECOMPOSITION, OpDef, op
from rushlight.ops.build import to_dtype
from rushlight.ops.meta import Meta
from rushlight.ops.rules import elementwise_shape, float_dtype

NARROW = (bfloat16, float16, complex32)


def in_float32(rule: Callable[..., tuple]) -> Callable[..., tuple]:
    """A gradient rule that computes in float32 when its values are bfloat16 or float16.

    Each gradient is rounded once, at the end (by who asked for it). The rule must read `meta`.
    """
    names = parameter_names(rule)

    @functools.wraps(rule)
    def wrapped(*args: Any, **kwargs: Any) -> tuple:
        given = dict(zip(names, args, strict=False)) | kwargs
        meta: Meta = given["meta"]
        if not meta.has_narrow():
            return rule(**given)
        wide = {name: _widen(value) for name, value in given.items()}
        return rule(**(wide | {"meta": meta.widened()}))

    return wrapped


def _widen(value: Any) -> Any:
    if isinstance(value, list):
        return [_widen(item) for item in value]
    dtype = getattr(value, "dtype", None)
    return to_dtype(value, dtype.compute) if dtype in NARROW else value


def composite(
    name: str,
    doc: str,
    inputs: tuple,
    decompose: Callable[..., Any],
    reference: Callable[..., Any],
    grad: Any = FROM_DECOMPOSITION,
    **fields: Any,
) -> OpDef:
    """Declare a composite; shape and dtype default to those of a float elementwise op."""
    fields.setdefault("unify", "shape" not in fields)
    fields.setdefault("shape", elementwise_shape)
    fields.setdefault("dtype", float_dtype)
    if inspect.isfunction(grad) and fields.get("compute_f32", True) and _reads_meta(grad):
        grad = in_float32(grad)
    return op(
        name=name,
        doc=doc,
        inputs=inputs,
        decompose=decompose,
        reference=reference,
        grad=grad,
        **fields,
    )


def _reads_meta(rule: Callable[..., Any]) -> bool:
    return "meta" in parameter_names(rule)
