"""Where loaded tensors go: the argument `map_location` of `torch.load`.

In: a storage that was read, the device it was saved from, and the argument. Out: the storage where
it is wanted. Devices that are not there are refused with PyTorch's words.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.packages import REGISTERED, restored_by_packages
from rushlight.serialization.storages import Storage

TO_THE_CPU = (
    "please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
)
OUR_OWN = frozenset(("opencl", "vulkan"))  # devices that PyTorch's own words do not name


def is_function(map_location: Any) -> bool:
    """Is it a function of a value and its place? A device can be called too, as a decorator."""
    return callable(map_location) and not isinstance(map_location, torch.device)


def restore(storage: Storage, saved: str, map_location: Any) -> Storage:
    """Move a storage. A callable gets it as a torch.UntypedStorage, and the saved device."""
    if is_function(map_location):
        given = storage.flat().untyped_storage()
        found = map_location(given, saved)
        if found is not None and found is not given:
            return Storage(bytearray(found.clone()._bytes()), storage.kind)
        if found is not None:
            return storage
    wanted = wanted_device(saved, map_location)
    if REGISTERED:
        found = restored_by_packages(storage.flat().untyped_storage(), wanted)
        if found is not None:
            return Storage(bytearray(found.clone()._bytes()), storage.kind)
    storage.place = device_here(wanted, saved)
    return storage


def place_tensor(tensor: torch.Tensor, saved: str, map_location: Any) -> torch.Tensor:
    """The same for a tensor of a file without storages; the callable gets the tensor."""
    if is_function(map_location):
        moved = map_location(tensor, saved)
        if moved is not None:
            return moved
    place = device_here(wanted_device(saved, map_location), saved)
    return tensor if place is None else tensor.to(place)


def wanted_device(saved: str, map_location: Any) -> str:
    """Return the name of the device that `map_location` says, when it is no callable."""
    if isinstance(map_location, dict):
        return str(map_location.get(saved, saved))
    if map_location is None or is_function(map_location):
        return saved
    return map_location.decode() if isinstance(map_location, bytes) else str(map_location)


def device_here(name: str, saved: str) -> torch.device | None:
    """The device of that name, None for the CPU. One that is not there is refused; one that nobody
    knows and that the file names is damage."""
    kind = name.partition(":")[0]
    if kind == "cpu":
        return None
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        if kind in OUR_OWN:
            raise RuntimeError(f"{error}; {TO_THE_CPU}") from None
    if kind in ("cuda", "xpu", "hpu", "mps"):
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but "
            f"torch.{kind}.is_available() is False. If you are running on a CPU-only machine, "
            f"{TO_THE_CPU}"
        )
    kind_of_error = CorruptFileError if name == saved else RuntimeError
    raise kind_of_error(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        f"{name})"
    )
