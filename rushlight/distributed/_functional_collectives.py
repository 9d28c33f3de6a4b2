"""Collectives that give new tensors: what `torch.distributed._functional_collectives` has.

In: a tensor and a group (a ProcessGroup, ranks, a mesh with one axis, or a mesh and an axis). Out:
a new tensor; those whose names end in `_autograd`, and all here, let gradients through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.base.errors import NotSupportedError
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.group import require_group
from rushlight.distributed.process_group import ReduceOp
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "AsyncCollectiveTensor",
    "REDUCE_OP_TO_STR",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

REDUCE_OP_TO_STR = {
    ReduceOp.SUM: "sum", ReduceOp.AVG: "avg", ReduceOp.PRODUCT: "product", ReduceOp.MIN: "min",
    ReduceOp.MAX: "max", ReduceOp.BAND: "band", ReduceOp.BOR: "bor", ReduceOp.BXOR: "bxor",
}  # fmt: skip


class AsyncCollectiveTensor(torch.Tensor):
    """A tensor that is still being received; in a group of one nothing is."""


def _size(group: Any) -> int:
    """How many processes the group has; more than one cannot be yet."""
    if isinstance(group, DeviceMesh):
        size = group.size()
    elif isinstance(group, tuple) and group and isinstance(group[0], DeviceMesh):
        size = group[0].size(group[1])
    elif isinstance(group, list):
        require_group()
        size = len(group[0]) if group and isinstance(group[0], list) else len(group)
    else:
        size = require_group(None if isinstance(group, str) else group).size()
    if size != 1:
        raise NotSupportedError(f"a collective of {size} processes: there is no transport yet")
    return size


def _check_op(name: str) -> None:
    if name.lower() not in REDUCE_OP_TO_STR.values():
        raise ValueError(
            f"reduceOp={name!r}; allowed are {', '.join(sorted(REDUCE_OP_TO_STR.values()))}"
        )


def wait_tensor(tensor: Any) -> Any:
    """The tensor, once it is there."""
    return tensor


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """A copy of the tensor of process `src`."""
    if src != 0:
        raise ValueError(f"broadcast: rank {src} is not in the group of {_size(group)} process")
    _size(group)
    return self.clone()


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:  # noqa: N803
    """What the operation makes of all processes' tensors, as a new tensor."""
    _check_op(reduceOp)
    _size(group)
    return self.clone()


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """All processes' tensors, joined along a dimension."""
    torch.empty(self.shape, device="meta").select(gather_dim, 0) if self.numel() else None
    _size(group)
    return self.contiguous().clone()


def reduce_scatter_tensor(
    self: Any,
    reduceOp: str,
    scatter_dim: int,
    group: Any,
    tag: str = "",  # noqa: N803
) -> Any:
    """This process's part, along a dimension, of what the operation makes of all tensors."""
    _check_op(reduceOp)
    return all_gather_tensor(self, scatter_dim, group)


def all_to_all_single(
    self: Any, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None,
    group: Any, tag: str = "",
) -> Any:  # fmt: skip
    """Part i goes to process i; the parts that came, joined."""
    for name, sizes in (("output", output_split_sizes), ("input", input_split_sizes)):
        if sizes is not None and list(sizes) != [self.shape[0]]:
            raise ValueError(
                f"{name}_split_sizes={list(sizes)}; for {_size(group)} process: [{self.shape[0]}]"
            )
    _size(group)
    return self.clone()


def permute_tensor(self: Any, src_dst: Sequence[int], group: Any, tag: str = "") -> Any:
    """The tensor of the process that sends to this one."""
    _size(group)
    if list(src_dst) != [0]:
        raise ValueError(f"src_dst={list(src_dst)}; for a group of one process: [0]")
    return self.clone()


def _several(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    def each(self: Sequence[Any], *args: Any, **kwargs: Any) -> list[Any]:
        return [function(tensor, *args, **kwargs) for tensor in self]

    each.__name__ = each.__qualname__ = f"{function.__name__}_coalesced"
    each.__doc__ = f"`{function.__name__}` of each tensor of a list."
    return each


def all_gather_into_tensor_coalesced(self: Sequence[Any], group: Any, tag: str = "") -> list[Any]:
    """`all_gather_tensor` along dimension 0 of each tensor of a list."""
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Any], reduceOp: str, scatter_dim: Sequence[int], group: Any,  # noqa: N803
    tag: str = "",
) -> list[Any]:  # fmt: skip
    """`reduce_scatter_tensor` of each tensor of a list, along its dimension."""
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_tensor(tensor, reduceOp, dim, group) for tensor, dim in pairs]


all_reduce_coalesced = _several(all_reduce)
all_gather_single = all_gather_single_autograd = all_gather_tensor
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
