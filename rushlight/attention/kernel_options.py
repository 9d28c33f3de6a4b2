"""`kernel_options` of flex_attention: which names there are, and what they mean here.

In: the dict of a call. Out: a `Choice`. Names, order of the checks and texts of the errors are
PyTorch's. Most options are sizes of GPU kernels: they are accepted and change nothing, because no
tile size may change a bit (docs/design/006).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from rushlight.attention.decode import PARTITION
from rushlight.ops.pairs import PAIR_TILE

BACKENDS = ("AUTO", "TRITON", "FLASH", "TRITON_DECODE")
OPTION_NAMES = frozenset(
    "num_warps num_stages BLOCK_M BLOCK_N BLOCK_M1 BLOCK_N1 BLOCK_M2 BLOCK_N2 PRESCALE_QK "
    "ROWS_GUARANTEED_SAFE BLOCKS_ARE_CONTIGUOUS WRITE_DQ FORCE_USE_FLEX_ATTENTION USE_TMA kpack "
    "matrix_instr_nonkdim waves_per_eu BACKEND PARTITION_SIZE SPARSE_Q_BLOCK_SIZE "
    "SPARSE_KV_BLOCK_SIZE".split()
)


class FlexKernelOptions(TypedDict, total=False):
    """Options of flex_attention's kernels; names may begin with fwd_ or bwd_ to apply to the
    forward or the backward only. An unknown name is an error.

    These act:
        PRESCALE_QK: the query is multiplied by the scale, instead of each score. Saves work;
            scores may be rounded differently (not if the scale is a power of two).
        PARTITION_SIZE: keys per part where few queries see many keys, a multiple of 64 (512).
        BACKEND: "TRITON_DECODE" demands that the keys are cut into such parts, "TRITON" and
            "FLASH" forbid it, "AUTO" decides by the sizes.
        FORCE_USE_FLEX_ATTENTION: True is the same as "TRITON".

    These are accepted, and what they promise or ask for is so anyway: ROWS_GUARANTEED_SAFE (rows
    without keys cost nothing to allow), BLOCKS_ARE_CONTIGUOUS (blocks are walked as runs), BLOCK_*
    (tiles are chosen from the sizes; no choice changes a bit), WRITE_DQ and all others.

    Example:
        >>> q = torch.ones(1, 1, 2, 4)
        >>> from rushlight.attention import flex_attention
        >>> flex_attention(q, q, q, kernel_options={"PRESCALE_QK": True}).shape
        torch.Size([1, 1, 2, 4])
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: Literal["AUTO", "TRITON", "FLASH", "TRITON_DECODE"]


@dataclass(frozen=True)
class Choice:
    """partition: keys per part where the keys are cut; may_cut, must_cut: is that allowed, is it
    demanded? prescale: does the scale go to the query?"""

    partition: int = PARTITION
    may_cut: bool = True
    must_cut: bool = False
    prescale: bool = False


def choice_of(options: Any) -> Choice:
    """Check the options of a call, and say what they choose."""
    options = {} if options is None else dict(options)
    _check(options)
    forward = {name: value for name, value in options.items() if name in OPTION_NAMES}
    forward |= {
        name.removeprefix("fwd_"): value
        for name, value in options.items()
        if name.startswith("fwd_")
    }
    partition = forward.get("PARTITION_SIZE", PARTITION)
    if not isinstance(partition, int) or partition < PAIR_TILE or partition % PAIR_TILE:
        raise ValueError(
            f"kernel_options['PARTITION_SIZE'] must be a multiple of {PAIR_TILE}, got {partition}"
        )
    backend = forward.get("BACKEND", "AUTO")
    whole = backend in ("TRITON", "FLASH") or bool(forward.get("FORCE_USE_FLEX_ATTENTION", False))
    return Choice(
        partition, not whole, backend == "TRITON_DECODE", bool(forward.get("PRESCALE_QK", False))
    )


def _check(options: dict) -> None:
    if "BACKEND" in options and options.get("FORCE_USE_FLEX_ATTENTION", False):
        raise RuntimeError(
            "BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION. "
            "BACKEND supersedes the legacy knob; please drop FORCE_USE_FLEX_ATTENTION "
            "and only specify the desired BACKEND."
        )
    if "BACKEND" in options and options["BACKEND"] not in BACKENDS:
        raise ValueError(f"Invalid BACKEND value '{options['BACKEND']}'. Must be one of {BACKENDS}")
    for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
        if name in options:
            raise AssertionError(f"{name} must not be in kernel_options")
    for name in options:
        if name.removeprefix("fwd_").removeprefix("bwd_") not in OPTION_NAMES:
            raise ValueError(
                f"kernel_options has no option '{name}'; the options are "
                f"{', '.join(sorted(OPTION_NAMES))}, each also with the prefix fwd_ or bwd_"
            )
