"""`save` and `load`: a planner and a storage brought together."""

from __future__ import annotations

import threading
from typing import Any, Protocol, runtime_checkable

import rushlight as torch
from rushlight.base.errors import NotSupportedError
from rushlight.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from rushlight.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from rushlight.distributed.checkpoint.flatten import flatten_state_dict, set_element
from rushlight.distributed.checkpoint.metadata import Metadata
from rushlight.distributed.checkpoint.planner import LoadPlanner, SavePlanner
from rushlight.distributed.checkpoint.storage import StorageReader, StorageWriter
from rushlight.distributed.tensor.dtensor import DTensor, plain


class CheckpointException(BaseException):
    """Processes failed; `failures` has what each raised."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self.failures = failures

    def __str__(self) -> str:
        lines = [f"Traceback (most recent call last): (RANK {rank})\n{error}"
                 for rank, error in self.failures.items()]  # fmt: skip
        return "\n".join([f"CheckpointException ranks:{set(self.failures)}", *lines])


@runtime_checkable
class Stateful(Protocol):
    """An object that a state dict may hold: its `state_dict()` is written."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


def _storage(given: Any, checkpoint_id: Any, kind: Any, name: str) -> Any:
    if given is not None:
        given.reset(checkpoint_id)
        return given
    if checkpoint_id is None:
        raise RuntimeError(f"`checkpoint_id` must be specified if {name} is None.")
    return kind(checkpoint_id)


def _states(state_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def save(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None,
    storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None,
    process_group: Any = None, no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Write a state dict, nested or flat, into the folder `checkpoint_id`; gives its metadata.

    Objects with `state_dict` and `load_state_dict` are written by the former. `load` reads it.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = save({"w": torch.arange(3), "step": 7}, checkpoint_id=folder.name)
    >>> state = {"w": torch.zeros(3, dtype=torch.int64), "step": 0}
    >>> load(state, checkpoint_id=folder.name)
    >>> state["w"].tolist(), state["step"]
    ([0, 1, 2], 7)
    """
    writer = _storage(storage_writer, checkpoint_id, FileSystemWriter, "storage_writer")
    planner = planner or DefaultSavePlanner()
    planner.set_up_planner(_states(state_dict), writer.storage_meta(), True)
    writer.set_up_storage_writer(True)
    plan = writer.prepare_local_plan(planner.create_local_plan())
    plans, metadata = planner.create_global_plan([plan])
    plan = planner.finish_plan(writer.prepare_global_plan(plans)[0])
    writer.finish(metadata, [writer.write_data(plan, planner).wait()])
    return metadata


def load(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None,
    storage_reader: StorageReader | None = None, planner: LoadPlanner | None = None,
    process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Read a checkpoint into a state dict: tensors in place, other values in their stead.

    Objects with `state_dict` and `load_state_dict` are given what was read by the latter.
    Raises CheckpointException when a key is missing or a size differs.
    """
    reader = _storage(storage_reader, checkpoint_id, FileSystemReader, "storage_reader")
    states = _states(state_dict)
    planner = planner or DefaultLoadPlanner()
    try:
        metadata = reader.read_metadata()
        planner.set_up_planner(states, metadata, True)
        reader.set_up_storage_reader(metadata, True)
        plan = reader.prepare_local_plan(planner.create_local_plan())
        plans = reader.prepare_global_plan(planner.create_global_plan([plan]))
        reader.read_data(planner.finish_plan(plans[0]), planner).wait()
    except (RuntimeError, ValueError, LookupError) as error:
        raise CheckpointException(f"load failed: {error}", {0: error}) from error
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = plain(value) if isinstance(value, DTensor) else value
        return value.detach().clone()
    return value


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None,
    storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None,
    process_group: Any = None, **settings: Any,
) -> Any:  # fmt: skip
    """`save` in a thread, of the values that tensors have now; gives a concurrent Future."""
    unknown = set(settings) - {"async_checkpointer_type", "async_stager", "no_dist",
                               "use_collectives"}  # fmt: skip
    if unknown:
        raise TypeError(f"async_save: unknown arguments {sorted(unknown)}")
    flat, paths = flatten_state_dict(_states(state_dict))
    copy: dict[str, Any] = {}
    for name, value in flat.items():
        set_element(copy, paths[name], _copied(value))
    torch.flush()
    future = torch.futures.Future()

    def work() -> None:
        try:
            future.set_result(
                save(copy, checkpoint_id=checkpoint_id, storage_writer=storage_writer,
                     planner=planner)
            )  # fmt: skip
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work).start()
    return future


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: StorageWriter, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None,
) -> Metadata:  # fmt: skip
    """`save` under its old name."""
    return save(state_dict, storage_writer=storage_writer, planner=planner)


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """`load` under its old name."""
    load(state_dict, storage_reader=storage_reader, planner=planner)


def load_sharded_optimizer_state_dict(*_: Any, **__: Any) -> Any:
    """Refused: use get_optimizer_state_dict and load."""
    raise NotSupportedError(
        "load_sharded_optimizer_state_dict: use state_dict.get_optimizer_state_dict, then load"
    )
