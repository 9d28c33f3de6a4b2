"""Attention with programmable scores and block-sparse masks."""

from rushlight.attention.block_mask import BlockMask
from rushlight.attention.create import and_masks, create_block_mask, create_mask, or_masks
from rushlight.attention.flex import AuxOutput, AuxRequest, flex_attention
from rushlight.attention.kernel_options import FlexKernelOptions
from rushlight.attention.own_mods import noop_mask

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]
