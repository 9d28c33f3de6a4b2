"""`out=`: a result goes into a tensor of the caller, which may have another shape or dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight import ops
from rushlight.autograd.mode import STATE
from rushlight.engine.undo import RISK, note_change
from rushlight.tensors.apply import apply
from rushlight.tensors.before import OutBefore
from rushlight.tensors.inplace import assign, check_can_cast, check_inplace
from rushlight.tensors.size import overlaps
from rushlight.tensors.tensor import Tensor, new_tensor
from rushlight.tensors.type_names import cpp_name
from rushlight.tensors.view import OVERLAP


def check_apart(out: Any, sources: Iterable[Any]) -> None:
    """`out=` of an op that reads its operands while it writes: no memory in common."""
    for target in out if isinstance(out, tuple | list) else (out,):
        if not isinstance(target, Tensor) or not target.numel():
            continue
        if target._view is not None and overlaps(target._shape, target._view.strides):
            raise RuntimeError(OVERLAP)
        for source in sources:
            if isinstance(source, Tensor) and source._storage is target._storage:
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to "
                    "tensor refer to a single memory location. Please clone() the tensor before "
                    "performing the operation."
                )


def write_out(out: Tensor, result: Tensor, exact: bool = False) -> Tensor:
    """`out=`: the result goes into a tensor of the caller, resized if the shape differs.

    `exact`: the dtype must be the result's.
    """
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if STATE.grad and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            "out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if exact and result._dtype is not out._dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {cpp_name(result._dtype)}, but got "
            f"{cpp_name(out._dtype)} instead"
        )
    check_can_cast(result._dtype, out._dtype)
    if result._dtype is not out._dtype:
        result = apply(ops.cast, (result, out._dtype))
    if out._shape != result._shape:
        # A storage of its own: the result may be a view, or an argument of the function.
        result = new_tensor(result._value())
        out._storage.check_room(out.storage_offset() + result.numel())
        if RISK.waits:
            note_change(result._storage, None, OutBefore(out))
        out._storage, out._counter = result._storage, result._counter
        out._shape, out._view, out._node, out._seen = result._shape, None, None, None
        return out
    check_inplace(out)
    return assign(out, result)


def finish(result: Tensor, out: Tensor | None, exact: bool = False) -> Tensor:
    """The result, in `out` if there is one. `exact`: the dtype of `out` must be the result's."""
    return result if out is None else write_out(out, result, exact)


def write_out_all(out: Any, results: Any, exact: bool = False) -> Any:
    """`out=` of a function with several results: a tensor for each; they come as `results` do.
    None: the results themselves."""
    if out is None:
        return results
    if len(out) != len(results):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(out)}")
    for target, value in zip(out, results, strict=True):
        write_out(target, value, exact)
    return type(results)(out)
