"""Wrappers of modules whose names do not show in state dicts and parameter names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FSDP_WRAPPED = "_fsdp_wrapped_module."
CHECKPOINTED = "_checkpoint_wrapped_module."
COMPILED, PARALLEL = "_orig_mod.", "module."


def clean_name(name: str) -> str:
    """The name without the wrappers' parts.

    >>> clean_name("_fsdp_wrapped_module.layer._checkpoint_wrapped_module.weight")
    'layer.weight'
    """
    return name.replace(FSDP_WRAPPED, "").replace(CHECKPOINTED, "").replace(COMPILED, "")


def moved(state_dict: dict[str, Any], old: str, new: str) -> None:
    """Keys that begin with `old` begin with `new`, in place and in order."""
    for key in list(state_dict):
        value = state_dict.pop(key)
        state_dict[new + key[len(old) :] if key.startswith(old) else key] = value


def hide_in_state_dict(wrapper: Any, part: str) -> None:
    """State dicts of the wrapper have, and take, the keys of what is wrapped under `part`."""

    def after(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        moved(state_dict, prefix + part, prefix)

    def before(state_dict: Any, prefix: str, *_: Any) -> None:
        if not any(key.startswith(prefix + part) for key in state_dict):
            moved(state_dict, prefix, prefix + part)

    wrapper._register_state_dict_hook(after)
    wrapper._register_load_state_dict_pre_hook(before)


def without(part: str, named: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The pairs with names that do not have `part`."""
    return ((name.replace(part, ""), value) for name, value in named)
