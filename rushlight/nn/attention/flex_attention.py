"""`torch.nn.attention.flex_attention`: the public names of `rushlight.attention`."""

from typing import Any

from rushlight import names as _names
from rushlight.attention import (
    AuxOutput,
    AuxRequest,
    BlockMask,
    FlexKernelOptions,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

__getattr__ = _names.getattr_of(__name__)
# Names that PyTorch has here without publishing them, and that packages import.
_DEFAULT_SPARSE_BLOCK_SIZE = 128
_score_mod_signature = _mask_mod_signature = Any

__all__ = [
    "_DEFAULT_SPARSE_BLOCK_SIZE",
    "_mask_mod_signature",
    "_score_mod_signature",
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
