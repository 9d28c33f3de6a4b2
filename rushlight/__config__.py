"""torch.__config__: how this build was made, as text."""

from __future__ import annotations

import rushlight as torch

__all__ = ["_cxx_flags", "parallel_info", "show"]


def show() -> str:
    """What this is and what it was made without; programs search this text for USE_X=OFF."""
    return (
        f"Rushlight {torch.__version__}, built with:\n  - code made by LLVM (llvmlite) when it is "
        "needed\n  - Build settings: BLAS_INFO=none, USE_CUDA=OFF, USE_CUDNN=OFF, USE_MKL=OFF, "
        "USE_MKLDNN=OFF, USE_MPI=OFF, USE_NCCL=OFF, USE_OPENMP=OFF, USE_ROCM=OFF\n"
    )


def parallel_info() -> str:
    """The threads that are used."""
    return (
        f"ATen/Parallel:\n\tat::get_num_threads() : {torch.get_num_threads()}\n"
        f"\tat::get_num_interop_threads() : {torch.get_num_interop_threads()}\n"
        "ATen parallel backend: native thread pool\n"
    )


def _cxx_flags() -> str:
    """ "": no C++ was compiled."""
    return ""
