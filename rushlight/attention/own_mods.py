"""The mask_mods that a BlockMask has of itself: the default, and that of a slice."""

from __future__ import annotations

from typing import Any

import rushlight as torch


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Keep every element."""
    return batch.new_ones(size=(), dtype=torch.bool, device=batch.device)


def sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask_mod of a slice: its indices would no longer be those of the whole mask."""
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
