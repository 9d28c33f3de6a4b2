"""How the result of a function of distributed tensors lies on the mesh.

In: the function's name, its arguments, the result's shape. Out: a placement for each axis of the
mesh. A function without a rule has a replicated result: its arguments are brought together first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

# Same shape, but an element needs others along a dimension.
_ALONG = frozenset(
    """softmax log_softmax cumsum cumprod logcumsumexp cummax cummin sort argsort flip roll
    layer_norm rms_norm group_norm normalize renorm tril triu""".split()
)
# A sum of parts stays one under these.
_LINEAR = frozenset(
    """neg clone detach to float double half bfloat16 contiguous view reshape t transpose permute
    requires_grad_ alias flatten unsqueeze squeeze add sub __get__""".split()
)
_PRODUCTS = frozenset(("matmul", "mm", "bmm", "linear", "__matmul__"))
_SUMS = {"sum": "sum", "mean": "avg"}


def out_placements(
    name: str, operands: Sequence[Any], args: tuple, kwargs: dict[str, Any], shape: Sequence[int]
) -> tuple[Placement, ...]:
    """operands: the distributed tensors among the arguments, in order."""
    first = operands[0]
    name = name.removesuffix("_") if not name.endswith("__") else name
    return tuple(
        _one(name, [(t, t.placements[axis]) for t in operands], args, kwargs, tuple(shape))
        for axis in range(first.device_mesh.ndim)
    )


Operand = tuple[Any, Placement]


def _one(
    name: str, operands: list[Operand], args: tuple, kwargs: dict[str, Any], shape: tuple[int, ...]
) -> Placement:
    tensor, placement = operands[0]
    if name in _PRODUCTS and len(operands) >= 2:
        return _product(name, operands, shape)
    if any(isinstance(p, Partial) for _, p in operands):
        same = all(p == placement for _, p in operands)
        return placement if name in _LINEAR and same else Replicate()
    if all(isinstance(p, Replicate) for _, p in operands):
        return Replicate()
    if name in _SUMS:
        return _sum(name, tensor, placement, args[1:], kwargs, shape)
    if name in ("t", "transpose", "__get__", "swapaxes") and tensor.dim() == 2:
        return _swapped(placement, tensor, shape)
    if name in ("view", "reshape", "flatten"):
        return _reshaped(tensor, placement, shape)
    if name in _ALONG or name in ("permute", "transpose"):
        return Replicate()
    for tensor, placement in operands:
        if isinstance(placement, Shard) and tuple(tensor.shape) == shape:
            return placement
    return Replicate()


def _product(name: str, operands: list[Operand], shape: tuple[int, ...]) -> Placement:
    (left, at_left), (right, at_right) = operands[:2]
    rows, inner = left.dim() - 2, left.dim() - 1
    columns, depth = (0, 1) if name == "linear" else (right.dim() - 1, right.dim() - 2)
    if at_left.is_shard(inner) and at_right.is_shard(depth):
        return Partial()
    if at_right.is_shard(columns) and not at_left.is_shard():
        return Shard(len(shape) - 1)
    if isinstance(at_left, Shard) and at_left.dim <= rows:
        return at_left
    return Replicate()


def _sum(
    name: str, tensor: Any, placement: Placement, args: tuple, kwargs: dict[str, Any],
    shape: tuple[int, ...],
) -> Placement:  # fmt: skip
    if not isinstance(placement, Shard):
        return placement
    dims = args[0] if args else kwargs.get("dim")
    dims = range(tensor.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    reduced = {dim % max(tensor.dim(), 1) for dim in dims}
    if placement.dim in reduced:
        return Partial(_SUMS[name])
    if len(shape) == tensor.dim():  # keepdim
        return placement
    return Shard(placement.dim - sum(dim < placement.dim for dim in reduced))


def _swapped(placement: Placement, tensor: Any, shape: tuple[int, ...]) -> Placement:
    if isinstance(placement, Shard) and shape == tuple(reversed(tensor.shape)):
        return Shard(1 - placement.dim)
    return placement


def _reshaped(tensor: Any, placement: Placement, shape: tuple[int, ...]) -> Placement:
    """What lies before the cut dimension must stay; at the front the cut stays possible."""
    if not isinstance(placement, Shard):
        return placement
    at = placement.dim
    kept = len(shape) > at and tuple(tensor.shape[:at]) == shape[:at]
    return placement if kept else Replicate()
