"""torch.backends.*: switches that scripts written for PyTorch set and read.

None of them changes a result here: an op has one algorithm and one order of operations. They keep
what they are given, so that a script reads back what it wrote.
"""

from __future__ import annotations

from types import SimpleNamespace


def _unavailable() -> bool:
    return False


class Flags(SimpleNamespace):
    """A set of switches; `is_available()` and `is_built()` are False unless given."""

    is_available = staticmethod(_unavailable)
    is_built = staticmethod(_unavailable)


cudnn = Flags(
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
    version=lambda: None,
)  # fmt: skip
cuda = Flags(
    matmul=Flags(
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
    ),
    enable_flash_sdp=lambda enabled: None,
    enable_mem_efficient_sdp=lambda enabled: None,
    enable_math_sdp=lambda enabled: None,
    enable_cudnn_sdp=lambda enabled: None,
    flash_sdp_enabled=lambda: True,
    mem_efficient_sdp_enabled=lambda: True,
    math_sdp_enabled=lambda: True,
)
mps = Flags()
mkldnn = Flags(enabled=True)
mkl = Flags()
openmp = Flags()
opt_einsum = Flags(enabled=True, strategy="auto")
