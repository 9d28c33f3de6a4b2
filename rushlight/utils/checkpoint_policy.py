"""Selective checkpoints: which values are kept, which computed again.

Values are the same either way. Here a program keeps what its compiler chooses when both passes are
one program, so a policy is read for what it says of mistakes and changes nothing else.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class CheckpointPolicy(enum.Enum):
    """What to do with the result of an operation in a checkpointed function."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told first. is_recompute: is it the second run?"""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """For `checkpoint(..., context_fn=...)`: the contexts of the first and of the second run.

    Args:
        policy_fn_or_list: `f(context, op, *args, **kwargs)` that gives a CheckpointPolicy, or a
            list of operations to save. All values are computed again whatever it says.
    Raises TypeError for anything else.
    """
    if not callable(policy_fn_or_list) and not isinstance(policy_fn_or_list, list):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    return contextlib.nullcontext(), contextlib.nullcontext()


__all__ = [
    "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts",
]  # fmt: skip
