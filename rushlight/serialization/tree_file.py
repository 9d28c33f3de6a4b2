"""Any tree of tensors and plain values in a safetensors file: data and no code, so loading one
runs nothing."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from rushlight.serialization.errors import CLEAR, CorruptFileError
from rushlight.serialization.map_location import place_tensor
from rushlight.serialization.safetensors import Source, read_tensors, write_tensors
from rushlight.serialization.tree import TreeReader, TreeWriter
from rushlight.serialization.unpickle import DAMAGE

TREE = "rushlight.tree"


def write_tree(obj: Any, file: BinaryIO) -> None:
    """Write a tree of tensors and plain values.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> write_tree({"step": 3, "sizes": (1, 2)}, file)
        >>> _ = file.seek(0)
        >>> read_tree_file(Source(file), None)
        {'step': 3, 'sizes': (1, 2)}
    """
    writer = TreeWriter()
    tree = json.dumps(writer.encode(obj, ""), allow_nan=False, separators=(",", ":"))
    write_tensors(file, writer.tensors, {TREE: tree})


def read_tree_file(source: Source, map_location: Any) -> Any:
    """Read what `write_tree` wrote, or a safetensors file of any tool as a dict of tensors."""
    tensors, metadata = read_tensors(source)
    if TREE not in metadata:
        return {name: place_tensor(x, "cpu", map_location) for name, x in tensors.items()}
    passed: list[Exception] = []

    def place(tensor: Any, saved: str) -> Any:
        try:
            return place_tensor(tensor, saved, map_location)
        except Exception as error:
            passed.append(error)  # of the caller's `map_location`, not of the file
            raise

    try:
        return TreeReader(tensors, place).decode(json.loads(metadata[TREE]))
    except CLEAR:
        raise
    except DAMAGE as error:
        if any(error is known for known in passed):
            raise
        raise CorruptFileError(f"the tree of the file cannot be read: {error!r:.300}") from error
