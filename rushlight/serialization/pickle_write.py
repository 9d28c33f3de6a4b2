"""Pickle an object in the words of PyTorch's files: its names for classes, storages kept outside.

In: any picklable object with tensors in it. Out: the pickle, and the storages by key, each once
whatever number of tensors see it. PyTorch reads it with `weights_only=True` when the object is made
of what that allows.
"""

from __future__ import annotations

import codecs
import io
import pickle
import types
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import rushlight as torch
from rushlight.serialization.errors import UnsupportedObjectError
from rushlight.serialization.packages import location_of
from rushlight.serialization.storages import CLASS_OF, UNTYPED, short_name
from rushlight.tensors.cells import cell_array, cell_of, is_window

PACKAGE, TORCH = "rushlight", "torch"
# How a tensor sees its memory, besides strides: PyTorch's names of the two bits.
BITS = {"conj": torch.is_conj, "neg": torch.is_neg}


@dataclass(frozen=True)
class Global:
    """A class or function named in the pickle, which need not exist here."""

    module: str
    name: str

    def __call__(self, *args: Any) -> Any:
        """Pickle asks that what rebuilds an object can be called; it never is."""
        raise TypeError(f"{self.module}.{self.name} is only a name")


@dataclass(frozen=True, eq=False)
class SavedStorage:
    """One memory cell on its way into a file; `cell` is held so that it keeps its identity."""

    key: str
    kind: Global
    array: np.ndarray
    cell: Any
    dtype: Any
    location: str

    @property
    def memory(self) -> memoryview:
        """The bytes."""
        if self.array.nbytes == 0:
            return memoryview(b"")
        return memoryview(self.array.reshape(-1).view(np.uint8))

    @property
    def identifier(self) -> tuple:
        """What stands for the storage in the pickle."""
        size = 1 if self.kind.name == UNTYPED else self.dtype.itemsize
        numel = self.array.nbytes // size
        return ("storage", self.kind, self.key, self.location, numel)


class StoragePickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Python's pickler (the C one cannot write a name without importing it)."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, file: Any, protocol: int) -> None:
        """Start without storages."""
        super().__init__(file, protocol)
        self.storages: dict[Any, SavedStorage] = {}
        self._globals: dict[tuple[str, str], Global] = {}

    def named(self, path: str) -> Global:
        """Return the one object for a name, so that the pickle can refer to it again."""
        module, _, name = path.rpartition(".")
        return self._globals.setdefault((module, name), Global(module, name))

    def persistent_id(self, obj: Any) -> Any:
        """Keep storages outside."""
        return obj.identifier if type(obj) is SavedStorage else None

    def reducer_override(self, obj: Any) -> Any:
        """Say how to rebuild what is ours."""
        if isinstance(obj, torch.Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, torch.Size):
            return self.named("torch.Size"), (tuple(obj),)
        if isinstance(obj, torch.device):
            where = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return self.named("torch.device"), where
        if isinstance(obj, torch.UntypedStorage | torch.TypedStorage):
            raise UnsupportedObjectError("cannot save a storage; save a tensor that sees it")
        if type(obj) is bytes and not obj and self.proto < 3:
            # Python would name the class bytes, which `weights_only` does not allow.
            return codecs.encode, ("", "latin1")
        if isinstance(obj, torch.layout) and not isinstance(obj, torch.memory_format):
            return self.named("torch.serialization._get_layout"), (str(obj),)
        return NotImplemented

    def _reduce_tensor(self, tensor: torch.Tensor) -> tuple:
        state = dict(tensor.__dict__)
        if isinstance(tensor, torch.nn.Parameter):
            args = (tensor.detach(), tensor.requires_grad, OrderedDict())
            if not state:
                return self.named("torch._utils._rebuild_parameter"), args
            return self.named("torch._utils._rebuild_parameter_with_state"), (*args, state)
        rebuild, args = self._rebuild_call(tensor)
        if type(tensor) is torch.Tensor and not state:
            return rebuild, args
        kind = self.named("torch.Tensor") if type(tensor) is torch.Tensor else type(tensor)
        return self.named("torch._tensor._rebuild_from_type_v2"), (rebuild, kind, args, state)

    def _rebuild_call(self, tensor: torch.Tensor) -> tuple[Global, tuple]:
        requires_grad = tensor.requires_grad
        if tensor.is_meta:
            how = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), requires_grad)
            return self.named("torch._utils._rebuild_meta_tensor_no_storage"), how
        if tensor.numel() and not is_window(tensor):
            tensor = tensor.detach().clone()
        storage = self._storage_of(tensor)
        where = (storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        call = (*where, requires_grad, OrderedDict())
        bits = {name: True for name, has in BITS.items() if has(tensor)}
        more = (bits,) if bits else ()
        if storage.kind.name != UNTYPED:
            return self.named("torch._utils._rebuild_tensor_v2"), (*call, *more)
        return self.named("torch._utils._rebuild_tensor_v3"), (*call, tensor.dtype, *more)

    def _storage_of(self, tensor: torch.Tensor) -> SavedStorage:
        cell = cell_of(tensor)
        known = self.storages.get(id(cell))
        if known is None:
            name = CLASS_OF.get(short_name(tensor.dtype))
            kind = self.named(f"torch.{name}" if name else f"torch.storage.{UNTYPED}")
            array, key = cell_array(tensor), str(len(self.storages))
            where = location_of(tensor)
            known = SavedStorage(key, kind, array, cell, tensor.dtype, where)
            self.storages[id(cell)] = known
        if known.dtype is not tensor.dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        return known

    def save_named(self, obj: Global) -> None:
        """Write a name."""
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_dtype(self, obj: Any) -> None:
        """Write the name of a dtype."""
        self.write(pickle.GLOBAL + f"torch\n{short_name(obj)}\n".encode())
        self.memoize(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write the name of a class or function; ours are called as PyTorch calls its own."""
        module = getattr(obj, "__module__", None) or ""
        if module.split(".")[0] != PACKAGE:
            super().save_global(obj, name)
            return
        path = name or obj.__qualname__
        if "<" in path:
            raise pickle.PicklingError(f"cannot save {obj}: it has no name in a module")
        self.write(pickle.GLOBAL + f"{TORCH}{module[len(PACKAGE) :]}\n{path}\n".encode())
        self.memoize(obj)

    dispatch[Global] = save_named
    dispatch[torch.dtype] = save_dtype
    dispatch[types.FunctionType] = save_global


def dump(obj: Any, protocol: int) -> tuple[bytes, list[SavedStorage]]:
    """Return the pickle of an object and its storages in the order of their keys.

    Example:
        >>> x = torch.ones(2)
        >>> len(dump([x, x.view(1, 2)], 2)[1])
        1
    """
    file = io.BytesIO()
    pickler = StoragePickler(file, protocol)
    try:
        pickler.dump(obj)
    except RecursionError as error:
        raise UnsupportedObjectError("cannot save: the object is nested too deeply") from error
    return file.getvalue(), list(pickler.storages.values())
