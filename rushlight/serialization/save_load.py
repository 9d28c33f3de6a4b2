"""`torch.save` and `torch.load`: any tree of tensors and plain values in a safetensors file.

No pickle: a file holds data and no code, so loading one can run nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import rushlight as torch
from rushlight.serialization.atomic_file import replace_file
from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.safetensors import (
    Source,
    open_and_read,
    read_tensors,
    write_tensors,
)
from rushlight.serialization.tree import TreeReader, TreeWriter

TREE = "rushlight.tree"
File = str | os.PathLike[str] | BinaryIO


def save(obj: Any, f: File) -> None:
    """Write a tree of tensors and plain values; a file by name is replaced whole or not at all.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> save({"step": 3, "weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> load(file)
        {'step': 3, 'weight': tensor([1., 1.])}
    """
    writer = TreeWriter()
    tree = json.dumps(writer.encode(obj, ""), allow_nan=False, separators=(",", ":"))

    def write(file: BinaryIO) -> None:
        write_tensors(file, writer.tensors, {TREE: tree})

    if isinstance(f, (str, os.PathLike)):
        replace_file(f, write)
    else:
        write(f)


def load(
    f: File, map_location: Any = None, weights_only: bool = True, mmap: bool | None = None
) -> Any:
    """Read what `save` wrote, or a safetensors file of any tool as a dict of tensors.

    `map_location` is a device for all tensors, a dict from saved to wanted devices, or a function
    of a tensor and its saved device; None goes back to the saved device. `mmap` maps a file given
    by name into memory instead of reading it. `weights_only` changes nothing: there never is
    anything else.
    """
    if isinstance(f, (str, os.PathLike)):
        tensors, metadata = open_and_read(f, is_mapped=bool(mmap))
    elif mmap:
        raise ValueError("f must be a file filename in order to use the mmap argument")
    else:
        tensors, metadata = read_tensors(Source(f))
    place = placement(map_location)
    if TREE not in metadata:
        return {name: place(tensor, "cpu") for name, tensor in tensors.items()}
    return read_tree(metadata[TREE], TreeReader(tensors, place))


def read_tree(text: str, reader: TreeReader) -> Any:
    """Decode the tree; one that `save` cannot have written is refused as damaged."""
    try:
        return reader.decode(json.loads(text))
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"the tree of the file cannot be read: {error!r}") from error


def placement(map_location: Any) -> Callable[[torch.Tensor, str], torch.Tensor]:
    """Return the function that moves a loaded tensor to its device."""

    def place(tensor: torch.Tensor, saved_device: str) -> torch.Tensor:
        wanted = saved_device
        if callable(map_location):
            moved = map_location(tensor, saved_device)
            if moved is not None:
                return moved
        elif isinstance(map_location, dict):
            wanted = map_location.get(saved_device, saved_device)
        elif map_location is not None:
            wanted = map_location
        return tensor if str(wanted) == "cpu" else tensor.to(wanted)

    return place
