"""Rushlight: a deep-learning stack of the PyTorch class in small, readable Python.

>>> import rushlight as torch
>>> torch.arange(3) + 1
tensor([1, 2, 3])

The names are looked up on first use (`__getattr__`): in TABLE, which `tensors.namespace` fills, or
in a subpackage or slow part that is imported then, so that importing the package stays fast.
"""

from __future__ import annotations

import importlib
from typing import Any

from rushlight import autograd
from rushlight.base.errors import MissingNameError
from rushlight.tensors.namespace import TABLE as _TABLE

__version__ = "0.1.0"

_SUBPACKAGES = frozenset(
    "nn optim utils attention losses linalg random cuda backends compiler serialization amp "
    "accelerator jit testing version special masked signal functional fft".split()
)
_INNER = frozenset({"backends", "compiler", "serialization", "replayed_settings"})
_NOT_YET = frozenset("distributed export profiler func distributions kernel sparse onnx".split())
_DEFERRED = {
    "autocast": "rushlight.amp",
    "compile": "rushlight.tensors.compiled",
    "replayed_settings": "rushlight.tensors.tracked",
    "save": "rushlight.serialization",
    "load": "rushlight.serialization",
    "typename": "rushlight.utils",
    "explain": "rushlight.engine.explain",
    "get_num_threads": "rushlight.tensors.threads",
    "set_num_threads": "rushlight.tensors.threads",
    "get_num_interop_threads": "rushlight.tensors.threads",
    "set_num_interop_threads": "rushlight.tensors.threads",
}

# The packages of the machinery can be reached too, but are not names to star-import.
_NAMES = {"autograd", *_TABLE, *_DEFERRED, *_SUBPACKAGES} - _INNER
__all__ = sorted(name for name in _NAMES if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name in _TABLE:
        value = _TABLE[name]
    elif name in _DEFERRED:
        value = getattr(importlib.import_module(_DEFERRED[name]), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"rushlight.{name}")
    elif name in _NOT_YET:
        raise MissingNameError(f"rushlight.{name} is not there yet")
    else:
        raise AttributeError(f"module 'rushlight' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_TABLE, *_SUBPACKAGES, *_DEFERRED})
