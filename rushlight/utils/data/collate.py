"""From a list of samples to one batch, and from arrays to tensors."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import rushlight as torch

__all__ = [
    "collate", "default_collate", "default_collate_err_msg_format", "default_convert",
    "np_str_obj_array_pattern",
]  # fmt: skip

UNKNOWN_TYPE = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
TEXT_KINDS = "SaUO"  # numpy kinds of text and objects, which no tensor can hold


def map_mapping(mapping: Any, values: dict[Any, Any]) -> Any:
    """Return a mapping like the given one with new values; a dict when its type refuses."""
    try:
        if isinstance(mapping, MutableMapping):
            clone = copy.copy(mapping)
            clone.update(values)
            return clone
        return type(mapping)(values)
    except TypeError:
        return values


def map_sequence(sequence: Any, values: list[Any]) -> Any:
    """Return a sequence like the given one with new values; a list when its type refuses."""
    try:
        if isinstance(sequence, MutableSequence):
            clone = copy.copy(sequence)
            for place, value in enumerate(values):
                clone[place] = value
            return clone
        return type(sequence)(values)
    except TypeError:
        return values


def is_namedtuple(value: Any) -> bool:
    """Say if it is a tuple with field names."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


# What `collate` does with the elements of a batch: class -> function(batch, collate_fn_map=...).
# Programs add classes of their own to `default_collate_fn_map`.
CollateMap = dict[Any, Callable[..., Any]]


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> torch.Tensor:
    """Stack tensors."""
    return torch.stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> torch.Tensor:
    """Stack numpy arrays to one tensor."""
    if batch[0].dtype.kind in TEXT_KINDS:
        raise TypeError(UNKNOWN_TYPE.format(batch[0].dtype))
    if len({(array.shape, array.dtype) for array in batch}) == 1:
        return torch.as_tensor(np.stack(batch))  # one tensor to make, not one for each sample
    return torch.stack([torch.as_tensor(array) for array in batch], 0)


def collate_numpy_scalar_fn(
    batch: Any, *, collate_fn_map: CollateMap | None = None
) -> torch.Tensor:
    """A tensor of numpy numbers."""
    return torch.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> torch.Tensor:
    """A float64 tensor of numbers."""
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> torch.Tensor:
    """A tensor of whole numbers."""
    return torch.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """The texts as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    torch.Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = UNKNOWN_TYPE


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Put the samples of a list together: containers are entered, and what else there is goes to
    the function of its class in `collate_fn_map`, or of the first class there that it is of.

    Example:
        >>> collate([[1, 2], [3, 4]], collate_fn_map={int: lambda b, collate_fn_map: sum(b)})
        [4, 6]
    """
    first = batch[0]
    functions = collate_fn_map or {}
    if type(first) in functions:
        return functions[type(first)](batch, collate_fn_map=collate_fn_map)
    for kind, function in functions.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        values = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return map_mapping(first, values)
    if not isinstance(first, Sequence):
        raise TypeError(UNKNOWN_TYPE.format(type(first)))
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [collate(samples, collate_fn_map=collate_fn_map)
               for samples in zip(*batch, strict=True)]  # fmt: skip
    if is_namedtuple(first):
        return type(first)(*columns)
    return columns if isinstance(first, tuple) else map_sequence(first, columns)


def default_collate(batch: Any) -> Any:
    """Put the samples of a list together: tensors and numbers are stacked, containers entered.

    Example:
        >>> default_collate([{"x": 1}, {"x": 2}])
        {'x': tensor([1, 2])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """Turn numpy arrays and numbers into tensors, also inside containers.

    Example:
        >>> default_convert([np.array([1, 2]), "text"])
        [tensor([1, 2]), 'text']
    """
    if isinstance(data, torch.Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in TEXT_KINDS else torch.as_tensor(data)
    if isinstance(data, Mapping):
        return map_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        return data
    values = [default_convert(value) for value in data]
    if is_namedtuple(data):
        return type(data)(*values)
    return values if isinstance(data, tuple) else map_sequence(data, values)
