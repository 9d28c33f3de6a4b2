"""Collectives in a group of one process: what would come back is what was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.base.errors import NotSupportedError
from rushlight.distributed.group import Work, require_group


def _done(async_op: bool, result: Any = None) -> Work | None:
    return Work(result) if async_op else None


def _check_root(name: str, root: int | None) -> None:
    if root not in (0, None):
        raise ValueError(f"{name}: rank {root} is not in the group of 1 process")


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Nobody to wait for."""
    require_group(group)
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Nobody to wait for."""
    require_group(group)


def all_reduce(tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
    """The tensor stays as it is."""
    require_group(group)
    return _done(async_op, [tensor])


def reduce(
    tensor: Any, dst: int | None = 0, op: Any = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Any:  # fmt: skip
    """The tensor stays as it is."""
    require_group(group)
    _check_root("reduce", dst)
    return _done(async_op, [tensor])


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Any:  # fmt: skip
    """The tensor stays as it is."""
    require_group(group)
    _check_root("broadcast", src)
    return _done(async_op, [tensor])


def _copy(target: Any, source: Any) -> None:
    with torch.no_grad():
        target.copy_(source.reshape(target.shape))


def all_gather(
    tensor_list: Sequence[Any], tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The one tensor of the list becomes `tensor`."""
    require_group(group)
    if len(tensor_list) != 1:
        raise ValueError(f"all_gather: {len(tensor_list)} tensors for a group of 1 process")
    _copy(tensor_list[0], tensor)
    return _done(async_op, list(tensor_list))


def gather(
    tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """The one tensor of the list becomes `tensor`."""
    _check_root("gather", dst)
    return all_gather(gather_list or [], tensor, group, async_op)


def scatter(
    tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Any:  # fmt: skip
    """The tensor becomes the one of the list."""
    _check_root("scatter", src)
    return all_gather([tensor], (scatter_list or [])[0], group, async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The output becomes the input."""
    require_group(group)
    _copy(output_tensor, input_tensor)
    return _done(async_op, [output_tensor])


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False
) -> Any:
    """The output becomes the input."""
    return all_gather_into_tensor(output, input, group, async_op)


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = None, group: Any = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """The output becomes the one tensor of the list."""
    return all_gather([output], input_list[0], group, async_op)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """The output becomes the input."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """The one output becomes the one input."""
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The list becomes `[obj]`."""
    require_group(group)
    object_list[:1] = [obj]


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """The list becomes `[obj]`."""
    _check_root("gather_object", dst)
    all_gather_object([] if object_gather_list is None else object_gather_list, obj, group)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """The list stays as it is."""
    require_group(group)
    _check_root("broadcast_object_list", src)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """The output's first place becomes the input's."""
    require_group(group)
    scatter_object_output_list[:1] = (scatter_object_input_list or [None])[:1]


def _needs_others(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        require_group()
        raise NotSupportedError(
            f"torch.distributed.{name} needs another process, and groups of more than one are not "
            "there yet"
        )

    refuse.__name__ = name
    return refuse


send, recv, isend, irecv = map(_needs_others, ("send", "recv", "isend", "irecv"))
batch_isend_irecv = _needs_others("batch_isend_irecv")
