"""Rushlight: a deep-learning stack of the PyTorch class in small, readable Python.

>>> import rushlight as torch
>>> torch.arange(3) + 1
tensor([1, 2, 3])

Subpackages (nn, optim, ...) and slow parts are imported when first used, so that importing the
package stays fast.
"""

from __future__ import annotations

import importlib
from typing import Any

from rushlight import autograd
from rushlight.tensors.namespace import TABLE as _TABLE

__version__ = "0.1.0"

_SUBPACKAGES = frozenset(
    "nn optim utils attention losses distributed export profiler testing func linalg special fft "
    "random cuda backends compiler serialization amp distributions accelerator masked signal functional".split()
)
_DEFERRED = {
    "compile": "rushlight.tensors.compiled",
    "save": "rushlight.serialization",
    "load": "rushlight.serialization",
    "typename": "rushlight.utils",
    "kernel": "rushlight.kernels",
    "explain": "rushlight.engine.explain",
    "get_num_threads": "rushlight.tensors.threads",
    "set_num_threads": "rushlight.tensors.threads",
    "get_num_interop_threads": "rushlight.tensors.threads",
    "set_num_interop_threads": "rushlight.tensors.threads",
}

globals().update(_TABLE)
__all__ = ["autograd", *_TABLE]


def __getattr__(name: str) -> Any:
    if name in _DEFERRED:
        value = getattr(importlib.import_module(_DEFERRED[name]), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"rushlight.{name}")
    else:
        raise AttributeError(f"module 'rushlight' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES, *_DEFERRED})
