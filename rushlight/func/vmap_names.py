"""torch._functorch.vmap: names of its inner steps, which packages import and replace. There are no
such steps here (`batched.py`), so those refuse; small helpers work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = [
    "_add_batch_dim", "_broadcast_to_and_flatten", "_create_batched_inputs", "_get_name",
    "_maybe_remove_batch_dim", "_process_batched_inputs", "_remove_batch_dim", "Tensor",
    "tree_flatten", "tree_unflatten", "_unwrap_batched",
]  # fmt: skip
Tensor = torch.Tensor
_broadcast_to_and_flatten = torch.utils._pytree._broadcast_to_and_flatten


def _get_name(func: Callable[..., Any]) -> str:
    """The name of a function, for messages."""
    return getattr(func, "__name__", None) or repr(func)


def refused(*_: Any, **__: Any) -> NoReturn:
    """In place of a step of vmap."""
    raise NotImplementedError(
        "vmap is not supported in steps: it does not wrap tensors; use torch.func.vmap on a "
        "function"
    )


_add_batch_dim = _remove_batch_dim = _maybe_remove_batch_dim = refused
_process_batched_inputs = _create_batched_inputs = _unwrap_batched = refused
