"""Triton kernels from tile programs (extra: `triton`): real `.py` files, for NVIDIA and AMD GPUs.

RUSHLIGHT_BACKEND=triton RUSHLIGHT_TRITON_INTERPRET=1 DEBUG=4 python train.py    # shows them
"""

from __future__ import annotations

from rushlight.backends.cfamily.refuse import refuse
from rushlight.backends.triton.build import build, load, lower_text, picks
from rushlight.backends.triton.driver_impl import find
from rushlight.compiler.target import Backend

BACKEND = Backend("triton", find, build, load, lower_text, picks=picks, refuse=refuse)

__all__ = ["BACKEND"]
