"""Metal Shading Language from tile programs (Apple GPUs), with an emulation for other machines."""

from __future__ import annotations

from rushlight.backends.cfamily.refuse import refuse
from rushlight.backends.metal.build import build, dump, load, lower_text, restore
from rushlight.backends.metal.caps import find
from rushlight.backends.metal.package import write_package
from rushlight.compiler.target import Backend

BACKEND = Backend(
    "metal", find, build, load, lower_text, dump, restore, refuse=refuse, package=write_package
)

__all__ = ["BACKEND"]
