"""WebGPU's shading language from tile programs, run by wgpu (extra: `wgpu`).

The proof that a C-like backend costs a few tables: it is all in this folder.
"""

from __future__ import annotations

from rushlight.backends.cfamily.refuse import refuse
from rushlight.backends.wgsl.build import build, lower_text
from rushlight.backends.wgsl.driver_impl import find
from rushlight.backends.wgsl.session import load
from rushlight.compiler.target import Backend

BACKEND = Backend("wgsl", find, build, load, lower_text, refuse=refuse)
