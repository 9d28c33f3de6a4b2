"""torch.backends.*: switches that scripts written for PyTorch set and read.

None of them changes a result here: an op has one algorithm and one order of operations. They keep
what they are given, so that a script reads back what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


def _unavailable() -> bool:
    return False


class Flags(SimpleNamespace):
    """A set of switches, and what `import torch.backends.X` gives. `is_available()` and
    `is_built()` are False unless given."""

    is_available = staticmethod(_unavailable)
    is_built = staticmethod(_unavailable)


@contextmanager
def _cudnn_flags(enabled: bool = False, **settings: Any) -> Iterator[None]:
    """Inside, the switches of cudnn have these values."""
    before = dict(vars(cudnn))
    vars(cudnn).update(enabled=enabled, **settings)
    try:
        yield
    finally:
        vars(cudnn).update(before)


@contextmanager
def _sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, bool]]:  # fmt: skip
    """Inside, these forms of attention would be allowed; there is one form."""
    yield {"enable_flash": enable_flash, "enable_math": enable_math,
           "enable_mem_efficient": enable_mem_efficient, "enable_cudnn": enable_cudnn}  # fmt: skip


class SDPAParams:
    """The arguments of an attention whose form is to be chosen."""

    def __init__(self, *args: Any) -> None:
        self.args = args


def _cannot(params: SDPAParams, debug: bool = False) -> bool:
    """No CUDA kernel can be used."""
    return False


cudnn = Flags(
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
    fp32_precision="none", conv=Flags(fp32_precision="none"), rnn=Flags(fp32_precision="none"),
    version=lambda: None, flags=_cudnn_flags,
)  # fmt: skip
cuda = Flags(
    sdp_kernel=_sdp_kernel,
    SDPAParams=SDPAParams,
    can_use_flash_attention=_cannot,
    can_use_efficient_attention=_cannot,
    can_use_cudnn_attention=_cannot,
    is_flash_attention_available=_unavailable,
    cudnn_sdp_enabled=lambda: True,
    matmul=Flags(
        allow_tf32=False,
        fp32_precision="none",
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
mps = Flags(is_macos_or_newer=lambda major, minor: False)
mkldnn = Flags(
    enabled=True, fp32_precision="none", matmul=Flags(fp32_precision="none"),
    conv=Flags(fp32_precision="none"), rnn=Flags(fp32_precision="none"),
)  # fmt: skip
mkl = Flags()
openmp = Flags()
opt_einsum = Flags(enabled=True, strategy="auto")
cpu = Flags(get_cpu_capability=lambda: "DEFAULT")
quantized = Flags(engine="none", supported_engines=["none"])
nnpack = Flags(set_flags=lambda enabled: (True,))
SWITCHES = {
    "cudnn": cudnn, "cuda": cuda, "mps": mps, "mkldnn": mkldnn, "mkl": mkl, "openmp": openmp,
    "opt_einsum": opt_einsum, "cpu": cpu, "quantized": quantized, "nnpack": nnpack,
}  # fmt: skip
