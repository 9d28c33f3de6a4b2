"""Other devices' memory in files: who names where a storage is, and who puts it back there.

`torch.load` asks what was registered, in the order of the priorities, then the CPU.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as torch

Tagger = Callable[[Any], str | None]
Restorer = Callable[[Any, str], Any]
NUMBERED = ("cuda", "xpu")
REGISTERED: list[tuple[int, Tagger, Restorer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Let `tagger(storage)` name a place, and `deserializer(storage, place)` restore it.

    Both give None for what is not theirs. A lower `priority` is asked first.
    """
    REGISTERED.append((priority, tagger, deserializer))
    REGISTERED.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The place of a storage, as files name it: "cpu", "cuda:0", "opencl"."""
    for _, tagger, _ in REGISTERED:
        found = tagger(storage)
        if found:
            return found
    return _named(storage.device)


def location_of(tensor: torch.Tensor) -> str:
    """The same for the memory of a tensor."""
    return location_tag(tensor.untyped_storage()) if REGISTERED else _named(tensor.device)


def _named(place: Any) -> str:
    """PyTorch gives numbers to GPUs that a machine may have more of."""
    return f"{place.type}:{place.index or 0}" if place.type in NUMBERED else place.type


def restored_by_packages(storage: Any, location: str) -> Any:
    """What a registered deserializer makes of a storage; None if none does."""
    for _, _, deserializer in REGISTERED:
        found = deserializer(storage, location)
        if found is not None:
            return found
    return None


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage at the place that a file names; a function for `map_location` to build on."""
    found = restored_by_packages(storage, location)
    if found is not None:
        return found
    if location == "cpu":
        return storage
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with "
        f"{location})"
    )


def validate_cuda_device(location: str) -> int:
    """The number of the GPU in "cuda:1"; RuntimeError where there is none."""
    return _validated("cuda", location)


def validate_hpu_device(location: str) -> int:
    """The number in "hpu:1"; RuntimeError, as there is none."""
    return _validated("hpu", location)


def _validated(kind: str, location: str) -> int:
    module = getattr(torch, kind, None)
    if module is None or not module.is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but "
            f"torch.{kind}.is_available() is False. If you are running on a CPU-only machine, "
            "please use torch.load with map_location=torch.device('cpu') to map your storages to "
            "the CPU."
        )
    index = torch.device(location).index or 0
    if index >= module.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on {kind.upper()} device {index} but "
            f"torch.{kind}.device_count() is {module.device_count()}. Please use torch.load with "
            "map_location to map your storages to an existing device."
        )
    return index


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is removed after the block."""
    with tempfile.TemporaryDirectory() as path:
        yield path
