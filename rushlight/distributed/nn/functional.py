"""Collectives through which gradients flow: a gradient goes back where its value came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.distributed.group import group as group  # PyTorch has it here too
from rushlight.distributed.group import require_group
from rushlight.distributed.process_group import ReduceOp
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)


def _of_one(name: str, tensors: Sequence[Any], pg: Any) -> None:
    size = require_group(pg).size()
    if len(tensors) != size:
        raise ValueError(f"{name}: {len(tensors)} tensors for a group of {size} process")


def _root(name: str, root: int, pg: Any) -> None:
    if root not in require_group(pg).ranks:
        raise ValueError(f"{name}: rank {root} is not in the group")


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of process `src`."""
    _root("broadcast", src, group)
    return tensor.clone()


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes, on `dst`."""
    _root("gather", dst, group)
    return (tensor.clone(),)


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """This process's place in the list of process `src`."""
    _root("scatter", src, group)
    _of_one("scatter", tensors, group)
    return tensors[0].clone()


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """What `op` makes of all tensors, on `dst`."""
    _root("reduce", dst, group)
    return tensor.clone()


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None
) -> Any:
    """What `op` makes of all processes' tensors at this one's place; `output` gives the shape."""
    _of_one("reduce_scatter", input_list, group)
    return input_list[0].clone().view_as(output)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes.

    Example:
        >>> import rushlight as torch
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group(rank=0, world_size=1, store=store)
        >>> [t.tolist() for t in all_gather(torch.ones(2))]
        [[1.0, 1.0]]
        >>> torch.distributed.destroy_process_group()
    """
    require_group(group)
    return (tensor.clone(),)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None
) -> tuple[Any, ...]:
    """Tensor i goes to process i; those that came."""
    _of_one("all_to_all", input_tensor_list, group)
    return tuple(
        given.clone().view_as(output)
        for given, output in zip(input_tensor_list, output_tensor_list, strict=True)
    )


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None,
) -> Any:  # fmt: skip
    """Part i goes to process i; the parts that came, joined."""
    require_group(group)
    return input.clone().view_as(output)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """What `op` makes of all tensors."""
    require_group(group)
    return tensor.clone()
