"""Losses that are computed together with the layer before them."""

from rushlight.losses.linear_cross_entropy import linear_cross_entropy
from rushlight.losses.options import LinearCrossEntropyOptions
from rushlight.losses.vocabulary_shard import VocabularyShard, merge_shards

__all__ = [
    "LinearCrossEntropyOptions",
    "VocabularyShard",
    "linear_cross_entropy",
    "merge_shards",
]
