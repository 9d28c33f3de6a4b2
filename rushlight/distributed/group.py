"""The process group of a program that runs as one process."""

from __future__ import annotations

import enum
from typing import Any

from rushlight.base.errors import NotSupportedError

NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


__all__ = ["_get_default_group"]  # names of PyTorch's distributed_c10d beside the public ones


class ReduceOp(enum.Enum):
    """How values of several processes become one; of one process each gives its value."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class Backend(str):
    """The name of a way to send, in small letters."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {name!r}")
        return str.__new__(cls, name.lower())


class ProcessGroup:
    """A group of one process."""

    def __init__(self, backend: str = "gloo") -> None:
        self._backend = Backend(backend)
        self.group_name = "0"

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    def name(self) -> str:
        return str(self._backend)


class _Meta(type):
    WORLD_GROUP: ProcessGroup | None = None

    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        return _Meta.WORLD_GROUP


class group(metaclass=_Meta):  # noqa: N801
    """group.WORLD is the default group; None before `init_process_group`."""


class GroupMember(metaclass=_Meta):
    """GroupMember.WORLD is the default group."""

    NON_GROUP_MEMBER = -100


class Work:
    """A collective that is done."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    is_success = is_completed

    def result(self) -> Any:
        return self._result


def is_available() -> bool:
    """False: more than one process cannot form a group yet."""
    return False


def is_initialized() -> bool:
    """Was `init_process_group` called?"""
    return group.WORLD is not None


def _no(*_: Any) -> bool:
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = _no
is_xccl_available = is_torchelastic_launched = is_backend_available = _no


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Form the group of this one process. More than one process is not supported yet.

    A launcher says the number of processes by the variable WORLD_SIZE, which is not read here: give
    `world_size`, or leave it at -1 for one process.
    """
    if world_size > 1 or rank > 0:
        raise NotSupportedError(
            f"torch.distributed.init_process_group: world_size={world_size}, rank={rank}: groups "
            "of more than one process are not there yet"
        )
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    _Meta.WORLD_GROUP = ProcessGroup((backend or "gloo").partition(",")[0].rpartition(":")[2])


def destroy_process_group(group: Any = None) -> None:
    """Forget the group."""
    require_group(group)
    _Meta.WORLD_GROUP = None


def require_group(group_given: Any = None) -> ProcessGroup:
    found = group_given if isinstance(group_given, ProcessGroup) else group.WORLD
    if found is None:
        raise ValueError(NOT_INITIALIZED)
    return found


_get_default_group = require_group


def get_rank(group: Any = None) -> int:
    return require_group(group).rank()


def get_world_size(group: Any = None) -> int:
    return require_group(group).size()


def get_backend(group: Any = None) -> str:
    return require_group(group).name()


def get_process_group_ranks(group: Any = None) -> list[int]:
    require_group(group)
    return [0]


def get_global_rank(group: Any, group_rank: int) -> int:
    require_group(group)
    return group_rank


def get_group_rank(group: Any, global_rank: int) -> int:
    require_group(group)
    return global_rank


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    return 0


def new_group(ranks: Any = None, *_: Any, **__: Any) -> ProcessGroup:
    """A group of some of the processes: of the one."""
    world = require_group()
    if ranks is not None and list(ranks) != [0]:
        raise ValueError(f"new_group: ranks {list(ranks)} are not in the group of 1 process")
    return ProcessGroup(world.name())
