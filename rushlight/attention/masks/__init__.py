"""Masks, one per file: mask_mods, or functions that make one."""

from rushlight.attention.masks.block_diagonal import block_diagonal
from rushlight.attention.masks.causal import causal
from rushlight.attention.masks.dilated import dilated
from rushlight.attention.masks.document import document
from rushlight.attention.masks.natten_2d import natten_2d
from rushlight.attention.masks.prefix_lm import prefix_lm
from rushlight.attention.masks.sliding_window import sliding_window
from rushlight.attention.masks.tree import tree

__all__ = [
    "block_diagonal",
    "causal",
    "dilated",
    "document",
    "natten_2d",
    "prefix_lm",
    "sliding_window",
    "tree",
]
