"""Any tree of tensors and plain values in a safetensors file: data and no code, so loading one
runs nothing."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from rushlight.serialization.errors import CorruptFileError
from rushlight.serialization.map_location import place_tensor
from rushlight.serialization.safetensors import Source, read_tensors, write_tensors
from rushlight.serialization.tree import TreeReader, TreeWriter

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
    reader = TreeReader(tensors, lambda x, device: place_tensor(x, device, map_location))
    try:
        return reader.decode(json.loads(metadata[TREE]))
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"the tree of the file cannot be read: {error!r}") from error
