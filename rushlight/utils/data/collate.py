"""From a list of samples to one batch, and from arrays to tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import rushlight as torch

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


def stack_arrays(batch: Sequence[np.ndarray]) -> torch.Tensor:
    """Stack numpy arrays to one tensor."""
    if batch[0].dtype.kind in TEXT_KINDS:
        raise TypeError(UNKNOWN_TYPE.format(batch[0].dtype))
    if len({(array.shape, array.dtype) for array in batch}) == 1:
        return torch.as_tensor(np.stack(batch))  # one tensor to make, not one for each sample
    return torch.stack([torch.as_tensor(array) for array in batch], 0)


LEAVES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (torch.Tensor, lambda batch: torch.stack(batch, 0)),
    (np.ndarray, stack_arrays),
    ((np.bool_, np.number), lambda batch: torch.as_tensor(np.asarray(batch))),
    (float, lambda batch: torch.tensor(batch, dtype=torch.float64)),
    (int, torch.tensor),
    ((str, bytes), lambda batch: batch),
)


def default_collate(batch: Any) -> Any:
    """Put the samples of a list together: tensors and numbers are stacked, containers entered.

    Example:
        >>> default_collate([{"x": 1}, {"x": 2}])
        {'x': tensor([1, 2])}
    """
    first = batch[0]
    for kind, collate in LEAVES:
        if isinstance(first, kind):
            return collate(batch)
    if isinstance(first, Mapping):
        return map_mapping(
            first, {key: default_collate([sample[key] for sample in batch]) for key in first}
        )
    if not isinstance(first, Sequence):
        raise TypeError(UNKNOWN_TYPE.format(type(first)))
    if is_namedtuple(first):
        return type(first)(*(default_collate(samples) for samples in zip(*batch, strict=True)))
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    values = [default_collate(samples) for samples in zip(*batch, strict=True)]
    return values if isinstance(first, tuple) else map_sequence(first, values)


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
