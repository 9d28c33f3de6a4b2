"""The process groups of this program: the default one, those made of it, and questions to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import rushlight as torch
from rushlight.distributed.process_group import (
    Backend,
    OneProcessGroup,
    ProcessGroup,
    ReduceOp,
)
from rushlight.distributed.rendezvous import refuse_several, rendezvous
from rushlight.distributed.store import PrefixStore, Store

NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
default_pg_timeout = timedelta(minutes=30)

# Names of PyTorch's distributed_c10d beside the public ones.
__all__ = ["_get_default_group", "_get_default_store", "_world", "_rank_not_in_group"]


class _World:
    """What there is in this process."""

    def __init__(self) -> None:
        self.default_pg: ProcessGroup | None = None
        self.store: Store | None = None
        self.groups: dict[str, ProcessGroup] = {}
        self.count = 0


_world = _World()


class _Meta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        return _world.default_pg


class group(metaclass=_Meta):  # noqa: N801
    """group.WORLD is the default group; None before `init_process_group`."""


class GroupMember(metaclass=_Meta):
    """GroupMember.WORLD is the default group."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """True: groups can be formed; so far of one process."""
    return True


def is_initialized() -> bool:
    """Was `init_process_group` called?"""
    return group.WORLD is not None


def _no(*_: Any) -> bool:
    return False


is_nccl_available = is_mpi_available = is_ucc_available = is_xccl_available = _no


def is_gloo_available() -> bool:
    """True: the name under which groups of one process are had, as on every CPU."""
    return True


def is_backend_available(backend: str) -> bool:
    """Is this the name of a backend that is built in? "gloo" is."""
    return backend.lower() == Backend.GLOO


def is_torchelastic_launched() -> bool:
    """False: no launcher of that kind starts this program."""
    return False


def _check_backend(backend: str | None) -> str:
    if backend is None:
        return Backend.UNDEFINED
    names = [part.rpartition(":")[2].lower() for part in backend.split(",")]
    for name in names:
        if name in (Backend.NCCL, Backend.MPI, Backend.UCC, Backend.XCCL):
            raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
        if name not in (Backend.GLOO, Backend.UNDEFINED):
            raise ValueError(
                f"init_process_group: backend={backend!r}; allowed are 'gloo' and 'cpu:gloo'"
            )
    return names[0]


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Form the group of this one process; more than one is not supported yet.

    Without `store` and `init_method`, the launcher says rank and number by the variables RANK,
    WORLD_SIZE, MASTER_ADDR and MASTER_PORT (env://); ValueError names the one that is not set.
    Raises RuntimeError for a backend that is not built in (nccl, mpi, ucc).

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size(), dist.get_backend()
    (0, 1, 'gloo')
    >>> dist.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout!r:.80}"
        )
    name = _check_backend(backend)
    if store is not None:
        if world_size <= 0:
            raise ValueError("world_size must be positive if using store")
        if rank < 0:
            raise ValueError("rank must be non-negative if using store")
    else:
        url = init_method or "env://"
        store, rank, world_size = next(iter(rendezvous(url, rank, world_size)))
    refuse_several(rank, world_size)
    _world.store = PrefixStore("default_pg", store)
    _world.default_pg = _world.groups["0"] = OneProcessGroup(name)


def destroy_process_group(group: Any = None) -> None:
    """Forget the group; the default one with all others."""
    found = require_group(group)
    if found is _world.default_pg:
        _world.default_pg = _world.store = None
        _world.groups.clear()
    else:
        _world.groups.pop(found.group_name, None)


def require_group(group_given: Any = None) -> ProcessGroup:
    """The group that is meant: the default one for None."""
    found = group_given if isinstance(group_given, ProcessGroup) else group.WORLD
    if found is None:
        raise ValueError(NOT_INITIALIZED)
    return found


_get_default_group = require_group


def _get_default_store() -> Store:
    require_group()
    return _world.store  # type: ignore[return-value]


def _rank_not_in_group(group: Any) -> bool:
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """The number of this process in the group; -1 when it is not in it."""
    return -1 if _rank_not_in_group(group) else require_group(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes the group has; -1 when this one is not in it."""
    return -1 if _rank_not_in_group(group) else require_group(group).size()


def get_backend(group: Any = None) -> str:
    """The name of the group's backend. Raises ValueError without a group."""
    return require_group(group).name()


def get_backend_config(group: Any = None) -> str:
    """The backend for each kind of device, "cpu:gloo"."""
    return f"cpu:{require_group(group).name()}"


def get_default_backend_for_device(device: Any) -> str:
    """ "gloo" for the CPU."""
    kind = torch.device(device).type
    if kind != "cpu":
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.GLOO


def get_pg_count() -> int:
    """How many groups there are, the default one with them."""
    return len(_world.groups)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The numbers of the group's processes in the whole program."""
    return list(require_group(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number in the whole program; ValueError for one that the group does not have."""
    ranks = require_group(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in the group; ValueError for a process outside of it."""
    ranks = require_group(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number on this machine: 0, that of the only process."""
    return 0


def new_group(
    ranks: Any = None, timeout: Any = None, backend: str | None = None, *_: Any, **__: Any
) -> Any:
    """A group of some of the processes; GroupMember.NON_GROUP_MEMBER where this one is not in."""
    world = require_group()
    chosen = world.ranks if ranks is None else sorted(ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"new_group: ranks {list(chosen)} hold a rank twice")
    for rank in chosen:
        if not 0 <= rank < world.size():
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {world.size() - 1} "
                f"(world_size={world.size()})"
            )
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    _world.count += 1
    name = world.name() if backend is None else _check_backend(backend)
    made = OneProcessGroup(name, str(_world.count))
    _world.groups[made.group_name] = made
    return made


def new_subgroups(
    group_size: int | None = None, group: Any = None, *args: Any, **kwargs: Any
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` processes each: this process's, and all."""
    size = require_group(group).size()
    group_size = size if group_size is None else group_size
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if group_size > size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    made = new_group([0])
    return made, [made]


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Any, *args: Any, **kwargs: Any
) -> tuple[Any, list[Any]]:
    """A group for each list of ranks: this process's, and all."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    made = [new_group(ranks) for ranks in ranks_per_subgroup_list]
    return next((one for one in made if not _rank_not_in_group(one)), None), made


def split_group(parent_pg: Any = None, split_ranks: Any = None, *_: Any, **__: Any) -> Any:
    """A group of the ranks of that list which holds this process."""
    rank = require_group(parent_pg).rank()
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    mine = [ranks for ranks in split_ranks if rank in ranks]
    return new_group(mine[0]) if mine else None


def supports_complex(reduceOp: ReduceOp) -> bool:  # noqa: N803  (PyTorch's name)
    """Has this a meaning for complex numbers?"""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


@contextmanager
def record_comm(name: str) -> Iterator[None]:
    """A part of the program under a name in profiles."""
    with torch.profiler.record_function(name):
        yield
