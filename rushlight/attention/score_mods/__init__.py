"""Changes of scores, one per file: functions that make a score_mod."""

from rushlight.attention.score_mods.alibi import alibi, alibi_slopes
from rushlight.attention.score_mods.relative_bias import relative_bias
from rushlight.attention.score_mods.softcap import softcap

__all__ = ["alibi", "alibi_slopes", "relative_bias", "softcap"]
