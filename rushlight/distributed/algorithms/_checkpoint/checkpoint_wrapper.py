"""Wrappers of modules that keep no intermediate values, or keep them on the CPU.

The wrapped module is `_checkpoint_wrapped_module`; names of parameters and keys of state dicts are
those of the module.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as torch
from rushlight.distributed.fsdp.wrap import lambda_auto_wrap_policy, wrap_below
from rushlight.distributed.prefixes import CHECKPOINTED, hide_in_state_dict, without
from rushlight.names import getattr_of as _getattr_of
from rushlight.nn.modules.module import Module
from rushlight.utils.checkpoint import checkpoint as torch_utils_checkpoint

__getattr__ = _getattr_of(__name__)
__all__ = [
    "_CHECKPOINT_PREFIX", "_CHECKPOINT_WRAPPED_MODULE", "ActivationWrapper", "CheckpointImpl",
    "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing", "checkpoint_wrapper",
    "offload_wrapper", "torch_utils_checkpoint",
]  # fmt: skip
_CHECKPOINT_WRAPPED_MODULE = CHECKPOINTED.rstrip(".")
_CHECKPOINT_PREFIX = CHECKPOINTED


class CheckpointImpl(enum.Enum):
    """The two ways of `torch.utils.checkpoint`."""

    REENTRANT, NO_REENTRANT = 1, 2


class ActivationWrapper(Module):
    """The base of the wrappers."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        hide_in_state_dict(self, CHECKPOINTED)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Defined by the wrappers."""
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name: str) -> Any:
        """Of the wrapper, else of the module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        """Of the module: a Sequential."""
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """With the names that the module gives."""
        return without(CHECKPOINTED, super().named_parameters(*args, **kwargs))


class OffloadWrapper(ActivationWrapper):
    """The module's saved tensors are kept on the CPU."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        with torch.autograd.graph.save_on_cpu(pin_memory=False):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """The module's intermediate values are computed again in backward.

    checkpoint_fn: called in place of `torch.utils.checkpoint.checkpoint`; other arguments go to it.
    """

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn_kwargs.setdefault("use_reentrant", reentrant)
            checkpoint_fn = torch_utils_checkpoint
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module under checkpoint."""
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        names, count = tuple(kwargs), len(args)

        def positional(*values: Any) -> Any:  # the reentrant way takes no keywords
            named = dict(zip(names, values[count:], strict=True))
            return self._checkpoint_wrapped_module(*values[:count], **named)

        return self.checkpoint_fn(positional, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """The module with its saved tensors on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
) -> Module:  # fmt: skip
    """The module, computing its intermediate values again in backward.

    >>> import rushlight as torch
    >>> list(checkpoint_wrapper(torch.nn.Linear(2, 2)).state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:  # fmt: skip
    """Put wrappers around modules below `model` that `check_fn` or the policy chooses, in place."""
    policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    wrap_below(model, policy, checkpoint_wrapper_fn)
