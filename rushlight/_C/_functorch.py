"""torch._C._functorch: questions about vmap's and grad's wrappers. No tensor is wrapped here: a
function under `vmap` is recorded once, with tensors of one example."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "_add_batch_dim", "get_batch_dim", "get_unwrapped", "is_batchedtensor", "is_functionaltensor",
    "is_functorch_wrapped_tensor", "is_gradtrackingtensor", "is_legacy_batchedtensor",
    "maybe_current_level", "maybe_get_bdim", "maybe_get_level", "peek_interpreter_stack",
    "_remove_batch_dim", "_vmap_decrement_nesting", "_vmap_increment_nesting",
]  # fmt: skip


def is_batchedtensor(tensor: Any) -> bool:
    """False: see above."""
    return False


is_gradtrackingtensor = is_functorch_wrapped_tensor = is_functionaltensor = is_batchedtensor
is_legacy_batchedtensor = is_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """The tensor itself."""
    return tensor


def maybe_get_level(tensor: Any) -> int:
    """-1: no level."""
    return -1


def maybe_current_level() -> None:
    """None: no level is entered."""
    return None


def peek_interpreter_stack() -> None:
    """None: no transform is on a stack."""
    return None


_add_batch_dim = _remove_batch_dim = get_batch_dim = torch.func.vmap_names.refused
_vmap_increment_nesting = _vmap_decrement_nesting = torch.func.vmap_names.refused


def maybe_get_bdim(tensor: Any) -> int:
    """-1: no dimension of a batch."""
    return -1
