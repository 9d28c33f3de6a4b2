"""What the programs written as scripts share: numbers by a seed, and a record of all that a script
found."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import torch


def N(*shape: int, k: int = 0, sc: float = 1.0) -> Any:  # noqa: N802
    """Normal float32 numbers of seed k."""
    drawn = np.random.default_rng(k).standard_normal(shape) * sc
    return torch.from_numpy(drawn.astype(np.float32))


def I(high: int, *shape: int, k: int = 0) -> Any:  # noqa: N802, E743
    """Integers below `high` of seed k."""
    return torch.from_numpy(np.random.default_rng(k).integers(0, high, shape))


def fill(model: Any, sc: float = 0.1) -> Any:
    """Give every parameter normal numbers, by its place among the names."""
    with torch.no_grad():
        for i, (_, value) in enumerate(sorted(model.named_parameters())):
            value.data.copy_(N(*value.shape, k=i, sc=sc).to(value.dtype))
    return model


def r(value: Any, digits: int = 0) -> Any:
    """Tensors and numbers in lists as floats."""
    if isinstance(value, (list, tuple)):
        return [r(part, digits) for part in value]
    return float(value)


def _flat(value: Any) -> list[float]:
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in _flat(part)]
    if isinstance(value, dict):
        return _flat(list(value.items()))
    if isinstance(value, str):  # texts must be equal
        return [float(zlib.crc32(value.encode()))]
    return [float(value)]


def kept(script: Callable[[], Any]) -> Callable[[Any], None]:
    """A script as a case: what it gives is kept, numbers and texts."""

    @functools.wraps(script)
    def case(record: harness.Record) -> None:
        found = script()
        parts = found if isinstance(found, tuple) else (found,)
        for i, part in enumerate(parts):
            if isinstance(part, list) and any(isinstance(p, (list, str)) for p in part):
                for j, inner in enumerate(part):
                    record.put(f"{i} {j}", _flat(inner))
            else:
                record.put(str(i), _flat(part))

    return case
