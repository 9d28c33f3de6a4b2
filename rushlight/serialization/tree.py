"""Nested objects as JSON, with tensors as names: what `save` keeps beside the tensors.

JSON's own null, booleans, integers, finite floats, texts and lists stand for themselves. All else
is an object with one tag:

    {"dict": [[key, value], ...]}     {"ordered": [...], "metadata": ...}     {"tuple": [...]}
    {"bytes": base64}  {"float": "nan"}  {"complex": [re, im]}  {"size": [...]}
    {"dtype": "float32"}  {"device": "cpu"}  {"tensor": name, "object": number, ...}

Two places that held one tensor object hold one object again; two tensors over the same memory
(as tied weights in a state dict) are stored once and share memory again. Views of different
shape into one memory are stored as separate tensors.
"""

from __future__ import annotations

import base64
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.header import METADATA


class TreeWriter:
    """Turns one object into JSON values and collects its tensors by name.

    Example:
        >>> writer = TreeWriter()
        >>> writer.encode({1: (torch.zeros(1), 2.5)}, "")
        {'dict': [[1, {'tuple': [{'tensor': '1.0', 'object': 0}, 2.5]}]]}
        >>> writer.tensors
        {'1.0': tensor([0.])}
    """

    def __init__(self) -> None:
        """Start with no tensors."""
        self.tensors: dict[str, torch.Tensor] = {}
        self._objects: dict[int, int] = {}
        self._kept: list[torch.Tensor] = []  # alive, so that no two objects get one id
        self._by_place: dict[Any, list[str]] = {}
        self._open: set[int] = set()

    def encode(self, value: Any, path: str) -> Any:
        """Return the JSON value; `path` is where in the tree it stands."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, torch.Tensor):
            return self._encode_tensor(value, path)
        if type(value) in (list, tuple, dict, OrderedDict):
            return self._encode_container(value, path)
        if type(value) in (bytes, bytearray):
            return {"bytes": base64.b64encode(value).decode()}
        if type(value) is complex:
            return {"complex": [self.encode(part, path) for part in (value.real, value.imag)]}
        if isinstance(value, torch.Size):
            return {"size": list(value)}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).rpartition(".")[2]}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        raise UnsupportedObjectError(
            f"cannot save {describe(path)}: a {type(value).__module__}."
            f"{type(value).__qualname__}. Saved are tensors, numbers, texts, bytes, None, and "
            "dicts, lists and tuples of them"
        )

    def _encode_container(self, value: Any, path: str) -> Any:
        if id(value) in self._open:
            raise UnsupportedObjectError(f"cannot save {describe(path)}: it contains itself")
        self._open.add(id(value))
        try:
            if type(value) in (list, tuple):
                items = [self.encode(v, join(path, i)) for i, v in enumerate(value)]
                return items if type(value) is list else {"tuple": items}
            pairs = [
                [self.encode(key, f"{path} (a key)"), self.encode(item, join(path, key))]
                for key, item in value.items()
            ]
            if type(value) is dict:
                return {"dict": pairs}
            encoded = {"ordered": pairs}
            if hasattr(value, "_metadata"):  # the versions that Module.state_dict puts there
                encoded["metadata"] = self.encode(value._metadata, join(path, "_metadata"))
            return encoded
        finally:
            self._open.discard(id(value))

    def _encode_tensor(self, tensor: torch.Tensor, path: str) -> Any:
        number = self._objects.setdefault(id(tensor), len(self._objects))
        self._kept.append(tensor)
        leaf: dict[str, Any] = {"tensor": self._name_for(tensor, path), "object": number}
        if tensor.device.type != "cpu":
            leaf["device"] = str(tensor.device)
        if isinstance(tensor, torch.nn.Parameter):
            leaf["parameter"] = True
        if tensor.requires_grad:
            leaf["requires_grad"] = True
        return leaf

    def _name_for(self, tensor: torch.Tensor, path: str) -> str:
        same_place = self._by_place.setdefault(place_of(tensor), [])
        for name in same_place:
            if is_same_memory(self.tensors[name], tensor):
                return name
        name = path if path not in ("", METADATA) else "tensor"
        stem, copies = name, 1
        while name in self.tensors:
            copies += 1
            name = f"{stem}#{copies}"
        same_place.append(name)
        self.tensors[name] = tensor
        return name


def join(path: str, key: Any) -> str:
    """Return the path of an item."""
    return f"{path}.{key}" if path else str(key)


def describe(path: str) -> str:
    """Name a place in an error message."""
    return f"'{path}'" if path else "the object"


def place_of(tensor: torch.Tensor) -> Any:
    """Return a value that is equal for tensors over the same memory, all of them alive."""
    if tensor.numel() == 0:
        return id(tensor)
    start = tensor.storage_offset(), tensor.dtype, tuple(tensor.shape)
    return tensor.untyped_storage()._cdata, *start


def is_same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Say if writing to one would change the other, element by element.

    Equal addresses do not prove it: an engine may give equal values one memory until a write.
    """
    return a is b or a.is_set_to(b)


class TreeReader:
    """Turns JSON values back into the object.

    `place` moves a tensor to where the caller wants it: it gets the tensor and the name of the
    device it was saved from.
    """

    def __init__(
        self, tensors: dict[str, torch.Tensor], place: Callable[[torch.Tensor, str], torch.Tensor]
    ) -> None:
        """Take the tensors of the file."""
        self.tensors = tensors
        self.place = place
        self._placed: dict[str, torch.Tensor] = {}
        self._objects: dict[int, torch.Tensor] = {}

    def decode(self, value: Any) -> Any:
        """Return the object of one JSON value."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        tag = next(iter(value), None)
        decode = DECODERS.get(tag)
        if decode is None:
            raise CorruptFileError(f"the tree contains an unknown tag {tag!r}")
        return decode(self, value)

    def _pairs(self, value: dict[str, Any]) -> list[tuple[Any, Any]]:
        (pairs, *_) = value.values()
        return [(self.decode(key), self.decode(item)) for key, item in pairs]

    def _ordered(self, value: dict[str, Any]) -> OrderedDict[Any, Any]:
        ordered = OrderedDict(self._pairs(value))
        if "metadata" in value:
            ordered._metadata = self.decode(value["metadata"])  # type: ignore[attr-defined]
        return ordered

    def _dtype(self, value: dict[str, Any]) -> torch.dtype:
        dtype = getattr(torch, value["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise CorruptFileError(f"the tree contains an unknown dtype {value['dtype']!r}")
        return dtype

    def _tensor(self, leaf: dict[str, Any]) -> torch.Tensor:
        number = leaf["object"]
        if number not in self._objects:
            self._objects[number] = self._new_object(leaf)
        return self._objects[number]

    def _new_object(self, leaf: dict[str, Any]) -> torch.Tensor:
        name = leaf["tensor"]
        if name not in self.tensors:
            raise CorruptFileError(f"the tree names a tensor '{name}' that the file lacks")
        if name not in self._placed:
            self._placed[name] = self.place(self.tensors[name], leaf.get("device", "cpu"))
        tensor = self._placed[name].detach()
        requires_grad = leaf.get("requires_grad", False)
        if leaf.get("parameter", False):
            return torch.nn.Parameter(tensor, requires_grad)
        return tensor.requires_grad_(requires_grad)


DECODERS: dict[Any, Callable[[TreeReader, dict[str, Any]], Any]] = {
    "dict": lambda reader, value: dict(reader._pairs(value)),
    "ordered": TreeReader._ordered,
    "tuple": lambda reader, value: tuple(reader.decode(value["tuple"])),
    "bytes": lambda reader, value: base64.b64decode(value["bytes"]),
    "float": lambda reader, value: float(value["float"]),
    "complex": lambda reader, value: complex(*reader.decode(value["complex"])),
    "size": lambda reader, value: torch.Size(value["size"]),
    "dtype": TreeReader._dtype,
    "device": lambda reader, value: torch.device(value["device"]),
    "tensor": TreeReader._tensor,
}
