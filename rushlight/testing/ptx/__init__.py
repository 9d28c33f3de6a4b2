"""PTX run in numpy: what a compiled GPU kernel computes, on a machine without a GPU."""

from rushlight.testing.ptx import together  # noqa: F401
from rushlight.testing.ptx.machine import Stuck, TensorMap, Wrong, run
from rushlight.testing.ptx.parse import parse

__all__ = ["Stuck", "TensorMap", "Wrong", "parse", "run"]
