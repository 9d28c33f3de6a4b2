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

from rushlight.base.collector import collector_paused as _collector_paused

with _collector_paused():
    from rushlight import autograd
    from rushlight.names import getattr_of as _getattr_of
    from rushlight.names.version import VERSION as __version__
    from rushlight.ops.user_spaces import SPACES as _SPACES
    from rushlight.tensors.namespace import TABLE as _TABLE
    from rushlight.tensors.tensor import LEGACY as _LEGACY

_SUBPACKAGES = frozenset(
    "nn optim utils attention losses linalg random cuda backends compiler serialization amp "
    "accelerator jit testing version special masked signal functional fft xpu mps mtia cpu "
    "library overrides hub futures multiprocessing types storage distributed func fx onnx "
    "distributions sparse profiler return_types export quasirandom monitor".split()
)
_INNER = frozenset(
    {
        "_C",
        "_dynamo",
        "_inductor",
        "backends",
        "compiler",
        "serialization",
        "replayed_settings",
        "repeat_update",
    }
)
_DEFERRED = {
    **dict.fromkeys(("autocast", "GradScaler"), "rushlight.amp"),
    "compile": "rushlight.tensors.compiled",
    "compile_report": "rushlight.tensors.compile_report",
    "replayed_settings": "rushlight.tensors.tracked",
    "repeat_update": "rushlight.tensors.repeat",
    "save": "rushlight.serialization",
    "load": "rushlight.serialization",
    "install_as_torch": "rushlight.names.install",
    **dict.fromkeys(("svd_lowrank", "pca_lowrank"), "rushlight._lowrank"),
    **dict.fromkeys(("cond", "while_loop"), "rushlight._higher_order_ops"),
    "Future": "rushlight.futures",
    "ScriptModule": "rushlight.jit",
    "typename": "rushlight.utils",
    "vmap": "rushlight.func",
    "explain": "rushlight.engine.explain",
    **dict.fromkeys(("Stream", "Event", "get_device_module"), "rushlight.accelerator"),
    **dict.fromkeys(
        (
            "sparse_coo_tensor",
            "sparse_csr_tensor",
            "sparse_csc_tensor",
            "sparse_bsr_tensor",
            "sparse_bsc_tensor",
            "sparse_compressed_tensor",
        ),
        "rushlight.sparse.convert",
    ),
    "get_num_threads": "rushlight.tensors.threads",
    "set_num_threads": "rushlight.tensors.threads",
    "get_num_interop_threads": "rushlight.tensors.threads",
    "set_num_interop_threads": "rushlight.tensors.threads",
}

_find_other = _getattr_of(__name__)
# The packages of the machinery can be reached too, but are not names to star-import.
_NAMES = {"autograd", *_TABLE, *_DEFERRED, *_SUBPACKAGES} - _INNER
__all__ = sorted(name for name in _NAMES if not name.startswith("_"))


def _find_space(name: str) -> Any:
    return importlib.import_module("rushlight.library.spaces").find_space(name)


_SPACES.find = _find_space


def _turn_on_overrides() -> None:
    importlib.import_module("rushlight.overrides.dispatch").turn_on()


def _torch_function(*args: Any) -> Any:
    return importlib.import_module("rushlight.overrides.answers").tensor_torch_function(*args)


def _taken_over(function: Any, args: tuple, kwargs: dict) -> Any:
    return importlib.import_module("rushlight.overrides.dispatch").taken_over(
        function, args, kwargs
    )


_LEGACY.subclassed, _LEGACY.torch_function = _turn_on_overrides, _torch_function
_LEGACY.taken_over = _taken_over


def _sparse(name: str) -> Any:
    module = "lookup" if name in ("sparse_embedding", "sparse_gather") else "convert"
    return getattr(importlib.import_module(f"rushlight.sparse.{module}"), name)


_LEGACY.sparse = _sparse


def _optimized(*args: Any) -> Any:
    return importlib.import_module("rushlight._dynamo.optimized_module").OptimizedModule(*args)


_LEGACY.optimized = _optimized


def __getattr__(name: str) -> Any:
    if name in _TABLE:
        value = _TABLE[name]
    elif name in _DEFERRED:
        value = getattr(importlib.import_module(_DEFERRED[name]), name)
    elif name in _SUBPACKAGES:
        with _collector_paused():
            value = importlib.import_module(f"rushlight.{name}")
    else:
        return _find_other(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_TABLE, *_SUBPACKAGES, *_DEFERRED})
