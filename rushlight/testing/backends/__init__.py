"""One model on several backends: are the results right, the same every time, how fast, how large?

    rushlight compare model.py --backends llvm,c,opencl

Correctness, determinism, speed and memory are verdicts of their own: a slow backend is not a wrong
one, and a wrong one is not excused by being fast.
"""

from rushlight.testing.backends.compare import BackendResult, Comparison, compare
from rushlight.testing.backends.html import page
from rushlight.testing.backends.table import table

__all__ = ["BackendResult", "Comparison", "compare", "page", "table"]
