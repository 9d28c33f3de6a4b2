"""One suite for every backend: does it compute what the tile language says, in all it claims?

    rushlight conformance opencl
    pytest tests/conformance --backend=opencl

A case is a small graph. It is supported (the results agree with the interpreter's: the same bits
where the backend's `caps.exact` promises that, else within a tolerance), refused by the backend
with a reason before anything ran, or failed.
"""

from rushlight.testing.conformance.cases import (
    Case,
    all_record_cases,
    record_cases,
    template_cases,
)
from rushlight.testing.conformance.report import Report
from rushlight.testing.conformance.run import Outcome, check, run_on
from rushlight.testing.conformance.table import write_row

__all__ = [
    "Case", "Outcome", "Report", "all_record_cases", "check", "record_cases", "run_on",
    "template_cases", "write_row",
]  # fmt: skip
