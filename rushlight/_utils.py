"""torch._utils: small helpers of PyTorch's own that packages import."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "classproperty", "_element_size", "ExceptionWrapper", "_get_all_device_indices",
    "_get_available_device_type", "_get_device_attr", "_get_device_index", "_get_device_module",
    "_import_dotted_name", "KeyErrorMessage", "_reorder_tensors_as",
]  # fmt: skip


def _flatten_dense_tensors(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All elements of tensors of one dtype, as one vector."""
    return torch.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(
    flat: torch.Tensor, tensors: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Views of the parts of `flat`, with the shapes of the tensors."""
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return tuple(part.view_as(like) for part, like in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Iterable[torch.Tensor], size_limit: int) -> Iterator[list[torch.Tensor]]:
    """The tensors in groups of one dtype, each of about `size_limit` bytes at most."""
    waiting: dict[str, list[torch.Tensor]] = {}
    for tensor in tensors:
        group = waiting.setdefault(tensor.type(), [])
        size = sum(t.numel() * t.element_size() for t in (*group, tensor))
        if group and size > size_limit:
            yield group
            group = waiting[tensor.type()] = []
        group.append(tensor)
    yield from (group for group in waiting.values() if group)


def _reorder_tensors_as(
    tensors: Iterable[torch.Tensor], ordered_tensors: Iterable[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The tensors, type by type in their order, in the order of the other tensors' types."""
    by_type: dict[str, list[torch.Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    queues = {name: iter(group) for name, group in by_type.items()}
    return tuple(next(queues[tensor.type()]) for tensor in ordered_tensors)


def _element_size(dtype: torch.dtype) -> int:
    """The bytes of one element."""
    return dtype.itemsize


def _import_dotted_name(name: str) -> Any:
    """The object called `package.module.name`."""
    first, *rest = name.split(".")
    found = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a GPU; -1 for the CPU where that is allowed."""
    if isinstance(device, int):
        return device
    place = torch.device(device) if device is not None else None
    if place is not None and place.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    if place is not None and place.index is not None:
        return place.index
    if optional:
        return 0
    raise ValueError(f"Expected a device with an index, but got: {device}")


def _get_available_device_type() -> None:
    """None: there is the CPU only."""
    return None


def _get_all_device_indices() -> list[int]:
    """The numbers of all GPUs: none."""
    return []


class KeyErrorMessage(str):
    """A text that `repr` does not quote: a KeyError prints the `repr` of its text."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An error of another thread or process, with its trace, to be raised again here."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = exc_info or sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))

    def reraise(self) -> NoReturn:
        """Raise an error of the same class."""
        text: str = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:  # its class asks for other arguments
            raise RuntimeError(text) from None
        raise error


class _ClassProperty:
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = classmethod(function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._function.__get__(instance, owner or type(instance))()


def classproperty(func: Callable[[Any], Any]) -> Any:
    """A property of the class."""
    return _ClassProperty(func)


def _get_device_module(device_type: str) -> Any:
    """torch.cpu for "cpu"."""
    return torch.get_device_module(device_type)


def _get_device_attr(get_member: Callable[[Any], Any]) -> None:
    """None: no device is there to be asked."""
    return None
