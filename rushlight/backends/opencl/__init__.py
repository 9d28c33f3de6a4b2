"""OpenCL C from tile programs, for any device with an OpenCL 1.2 driver (extra: `opencl`)."""

from __future__ import annotations

from rushlight.backends.cfamily.refuse import refuse
from rushlight.backends.opencl.build import build, dump, lower_text, restore
from rushlight.backends.opencl.driver_impl import find, serves
from rushlight.backends.opencl.sensors_impl import sensors
from rushlight.backends.opencl.session_impl import load
from rushlight.compiler.target import Backend

BACKEND = Backend(
    "opencl", find, build, load, lower_text, dump, restore, refuse=refuse, sensors=sensors,
    serves=serves,
)  # fmt: skip

__all__ = ["BACKEND"]
