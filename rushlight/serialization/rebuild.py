"""What a file may name without being asked for: the allow-list of `weights_only=True`.

In: the full names in a pickle. Out: for each a value, and how to call it. Always true: what can be
called here runs no code of the file and allocates no more than the file is large.
"""

from __future__ import annotations

import codecs
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.serialization.storages import CLASSES, UNTYPED, Storage, StorageClass

ENCODINGS = ("latin1", "latin-1", "utf-8", "ascii")
MAX_KEY_ITEMS, MAX_KEY_DEPTH = 100_000, 100


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any) -> torch.Tensor:
    """Make a tensor over a part of a storage."""
    if not isinstance(storage, Storage):
        raise CorruptFileError("a tensor has no storage")
    return storage.tensor(offset, tuple(size), tuple(stride))


def rebuild_tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    """The same, with the flag of autograd."""
    made = with_bits(rebuild_tensor(storage, offset, size, stride), metadata)
    return made.requires_grad_(bool(requires_grad))


def rebuild_tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    """The same for a storage of bytes: the dtype stands beside."""
    if not isinstance(storage, Storage) or not isinstance(dtype, torch.dtype):
        raise CorruptFileError("a tensor has no storage or no dtype")
    made = with_bits(storage.tensor(offset, tuple(size), tuple(stride), dtype), metadata)
    return made.requires_grad_(bool(requires_grad))


def rebuild_meta(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> torch.Tensor:
    """A tensor without values, of the device "meta"."""
    if not isinstance(dtype, torch.dtype):
        raise CorruptFileError("a tensor has no dtype")
    made = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    return made.requires_grad_(bool(requires_grad))


def with_bits(made: torch.Tensor, bits: Any) -> torch.Tensor:
    """See the memory conjugated or negated, as the file says."""
    if bits and bits.get("conj"):
        made = made.conj().detach()
    if bits and bits.get("neg"):
        made = torch.neg(made)
    return made


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> torch.nn.Parameter:
    """Make a parameter over a tensor's memory."""
    return new_parameter(data, requires_grad)


def rebuild_parameter_with_state(
    data: Any, requires_grad: Any, hooks: Any, state: Any
) -> torch.nn.Parameter:
    """The same, with attributes."""
    return with_state(new_parameter(data, requires_grad), state)


def new_parameter(data: Any = None, requires_grad: Any = True) -> torch.nn.Parameter:
    """torch.nn.Parameter(...) of a tensor."""
    if data is not None and not isinstance(data, torch.Tensor):
        raise CorruptFileError("a parameter has no tensor")
    return torch.nn.Parameter(data, bool(requires_grad))


def rebuild_from_type(func: Any, kind: Any, args: Any, state: Any) -> Any:
    """Make a tensor of a class, with attributes."""
    if func not in (rebuild_tensor, rebuild_tensor_v2, rebuild_tensor_v3):
        raise CorruptFileError("a tensor with attributes is built by something else")
    made = func(*args)
    if kind is not torch.Tensor:
        if not (isinstance(kind, type) and issubclass(kind, torch.Tensor)):
            raise CorruptFileError("a tensor has a class which is none of tensors")
        made = made.as_subclass(kind)
    return with_state(made, state)


def with_state(made: Any, state: Any) -> Any:
    """Give an object the attributes of a saved one."""
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return made
    values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    made.__dict__.update(values or {})
    for name, value in (slots or {}).items():
        setattr(made, name, value)
    return made


def check_key(key: Any) -> Any:
    """Return a key after checking that Python can hash it in bounded time and depth.

    Nested tuples are hashed on the machine's stack, and a tuple met twice is hashed twice.
    """
    items, level = 0, [key]
    for _ in range(MAX_KEY_DEPTH):
        level = [item for value in level if isinstance(value, tuple) for item in value]
        items += len(level)
        if not level:
            return key
        if items > MAX_KEY_ITEMS:
            break
    raise CorruptFileError("the key of a dict is nested too deeply")


def new_ordered_dict(pairs: Any = ()) -> OrderedDict:
    """OrderedDict(pairs)."""
    pairs = pairs.items() if isinstance(pairs, dict) else pairs
    return OrderedDict((check_key(key), value) for key, value in pairs)


def new_counter(counts: Any = ()) -> Counter:
    """Counter(dict)."""
    return Counter(counts if isinstance(counts, dict) else [check_key(key) for key in counts])


def new_set(items: Any = ()) -> set:
    """set(list)."""
    return {check_key(item) for item in items}


def new_bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    """bytearray(...) of bytes or text, never of a count, which could be any."""
    return bytearray(encode(data, encoding) if isinstance(data, str) else bytes(memoryview(data)))


def encode(text: Any, encoding: Any = "latin1") -> bytes:
    """How pickles of protocol 2 hold bytes."""
    if not isinstance(text, str) or encoding not in ENCODINGS:
        raise CorruptFileError(f"bytes are encoded as {encoding!r:.50}")
    return codecs.encode(text, encoding)


def new_size(sizes: Any = ()) -> torch.Size:
    """torch.Size(tuple)."""
    return torch.Size(sizes)


def get_layout(name: Any) -> Any:
    """The layout called "torch.strided" or alike."""
    found = getattr(torch, str(name).removeprefix("torch."), None)
    if not isinstance(found, torch.layout):
        raise CorruptFileError(f"the file names a layout {name!r:.50}")
    return found


def refused(name: str) -> Callable[..., Any]:
    """Return a function for what PyTorch rebuilds and Rushlight does not have."""

    def refuse(*args: Any) -> Any:
        raise UnsupportedObjectError(f"the file has a tensor made by {name}, which is not here")

    return refuse


def dtype_table() -> dict[str, Any]:
    """All dtypes by their full names."""
    names = [name for name in dir(torch) if isinstance(getattr(torch, name, None), torch.dtype)]
    return {f"torch.{name}": getattr(torch, name) for name in names}


# full name: (the value it stands for, what calling it does or None)
ALLOWED: dict[str, tuple[Any, Callable[..., Any] | None]] = {
    "collections.OrderedDict": (OrderedDict, new_ordered_dict),
    "collections.Counter": (Counter, new_counter),
    "builtins.set": (set, new_set),
    "builtins.bytearray": (bytearray, new_bytearray),
    "builtins.complex": (complex, complex),
    "_codecs.encode": (encode, encode),
    "torch.Size": (torch.Size, new_size),
    "torch.device": (torch.device, torch.device),
    "torch.Tensor": (torch.Tensor, None),
    "torch.nn.parameter.Parameter": (torch.nn.Parameter, new_parameter),
    "torch.serialization._get_layout": (get_layout, get_layout),
    "torch._utils._rebuild_meta_tensor_no_storage": (rebuild_meta, rebuild_meta),
    "torch._tensor._rebuild_from_type_v2": (rebuild_from_type, rebuild_from_type),
    **{
        f"torch._utils._{function.__name__}": (function, function)
        for function in (
            rebuild_tensor, rebuild_tensor_v2, rebuild_tensor_v3, rebuild_parameter,
            rebuild_parameter_with_state,
        )
    },
    **{
        f"torch._utils.{name}": (function, function)
        for name in (
            "_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_nested_tensor",
            "_rebuild_wrapper_subclass", "_rebuild_device_tensor_from_numpy",
            "_rebuild_device_tensor_from_cpu_tensor",
        )
        for function in (refused(name),)
    },
    **{f"torch.{name}": (StorageClass(name), None) for name in CLASSES},
    f"torch.storage.{UNTYPED}": (StorageClass(UNTYPED), None),
    **{name: (dtype, None) for name, dtype in dtype_table().items()},
}  # fmt: skip
