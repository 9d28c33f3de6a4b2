"""Collectives: arguments are checked here, what is sent is the group's business."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.base.errors import NotSupportedError
from rushlight.distributed.group import require_group
from rushlight.distributed.process_group import ReduceOp, Work


def _done(work: Work, async_op: bool) -> Work | None:
    if async_op:
        return work
    work.wait()
    return None


def _root(group: Any, name: str, root: int | None, group_root: int | None = None) -> int:
    """The number in the group of the process that is meant."""
    found = require_group(group)
    if group_root is not None:
        return group_root
    if root is None or root == found.ranks[0]:
        return 0
    if root not in found.ranks:
        raise ValueError(
            f"{name}: rank {root} is not in the group of {found.size()} process"
            f"{'es' if found.size() > 1 else ''}"
        )
    return found.ranks.index(root)


def _check_count(name: str, tensors: Sequence[Any], group: Any) -> None:
    size = require_group(group).size()
    if len(tensors) != size:
        raise ValueError(
            f"{name}: {len(tensors)} tensors for a group of {size} process"
            f"{'es' if size > 1 else ''}"
        )


def _check_numel(name: str, output: Any, expected: int) -> None:
    if output.numel() != expected:
        raise ValueError(f"{name}: the output has {output.numel()} elements, expected {expected}")


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait for all processes of the group."""
    return _done(require_group(group).barrier(), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait for all processes of the group."""
    barrier(group)


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The tensor becomes what `op` makes of all processes' tensors."""
    return _done(require_group(group).allreduce(tensor, op), async_op)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors."""
    several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    for tensor in several:
        all_reduce(tensor, op, group)
    return _done(Work(several), async_op)


def reduce(
    tensor: Any, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """The tensor of process `dst` becomes what `op` makes of all processes' tensors."""
    _root(group, "reduce", dst, group_dst)
    return _done(require_group(group).allreduce(tensor, op), async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Any:  # fmt: skip
    """The tensor becomes that of process `src`."""
    root = _root(group, "broadcast", src, group_src)
    return _done(require_group(group).broadcast(tensor, root), async_op)


def all_gather(
    tensor_list: Sequence[Any], tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of the list become those of the processes."""
    _check_count("all_gather", tensor_list, group)
    return _done(require_group(group).allgather(tensor_list, tensor), async_op)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """`all_gather` of several tensors: the list of process i becomes its tensors."""
    _check_count("all_gather_coalesced", output_tensor_lists, group)
    for place, tensor in enumerate(input_tensor_list):
        all_gather([outputs[place] for outputs in output_tensor_lists], tensor, group)
    return _done(Work(output_tensor_lists), async_op)


def gather(
    tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """The tensors of the list of process `dst` become those of the processes."""
    _root(group, "gather", dst, group_dst)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    return all_gather(gather_list, tensor, group, async_op)


def scatter(
    tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Any:  # fmt: skip
    """The tensor becomes the one at this process's place in the list of process `src`."""
    _root(group, "scatter", src, group_src)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _check_count("scatter", scatter_list, group)
    return _done(require_group(group).reduce_scatter(tensor, scatter_list), async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The output becomes the tensors of all processes, one behind the other."""
    found = require_group(group)
    _check_numel("all_gather_into_tensor", output_tensor, input_tensor.numel() * found.size())
    parts = output_tensor.reshape(-1).chunk(found.size()) if found.size() > 1 else [output_tensor]
    return _done(found.allgather(parts, input_tensor), async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The output becomes this process's part of what `op` makes of all inputs."""
    found = require_group(group)
    _check_numel("reduce_scatter_tensor", input, output.numel() * found.size())
    parts = input.reshape(-1).chunk(found.size()) if found.size() > 1 else [input]
    return _done(found.reduce_scatter(output, parts, op), async_op)


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """The output becomes what `op` makes of all processes' tensors at this one's place."""
    _check_count("reduce_scatter", input_list, group)
    return _done(require_group(group).reduce_scatter(output, input_list, op), async_op)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """Part i of the input goes to process i; the output becomes the parts that came."""
    found = require_group(group)
    sides = ((output, output_split_sizes), (input, input_split_sizes))
    parts = [side.split(sizes) if sizes else side.chunk(found.size()) for side, sizes in sides]
    for side in parts:
        _check_count("all_to_all_single", side, group)
    return _done(found.alltoall(*parts), async_op)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """Tensor i of the input list goes to process i; the outputs become what came."""
    _check_count("all_to_all", input_tensor_list, group)
    _check_count("all_to_all", output_tensor_list, group)
    return _done(require_group(group).alltoall(output_tensor_list, input_tensor_list), async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The list becomes the objects of all processes."""
    found = require_group(group).allgather_object(obj)
    object_list[: len(found)] = found


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """The list of process `dst` becomes the objects of all."""
    _root(group, "gather_object", dst, group_dst)
    all_gather_object([] if object_gather_list is None else object_gather_list, obj, group)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """The list becomes that of process `src`."""
    root = _root(group, "broadcast_object_list", src, group_src)
    object_list[:] = require_group(group).allgather_object(list(object_list))[root]


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """The output's first place becomes this process's place of the list of `src`."""
    root, found = _root(group, "scatter_object_list", src, group_src), require_group(group)
    lists = found.allgather_object(list(scatter_object_input_list or [None]))
    scatter_object_output_list[:1] = [lists[root][found.rank()]]


def _needs_others(name: str) -> Callable[..., Any]:
    def refuse(tensor: Any = None, dst: Any = None, group: Any = None, *_: Any, **__: Any) -> Any:
        require_group(group)
        raise NotSupportedError(
            f"torch.distributed.{name} needs another process, and groups of more than one are not "
            "there yet"
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


send, recv, isend, irecv = map(_needs_others, ("send", "recv", "isend", "irecv"))
send_object_list = _needs_others("send_object_list")
recv_object_list = _needs_others("recv_object_list")


class P2POp:
    """A send or receive to be done by `batch_isend_irecv`."""

    def __init__(
        self, op: Callable[..., Any], tensor: Any, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer = peer if group_peer is None else group_peer
        self.group_peer = self.peer

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, peer={self.peer}, {self.tensor.shape})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Do all; each needs another process."""
    if not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type P2POp.")
    return [op.op(op.tensor, op.peer, op.group) for op in p2p_op_list]
