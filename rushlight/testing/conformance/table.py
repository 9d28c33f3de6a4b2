"""The table of all backends as a page: each run of the suite puts in the row of its backend.

In: a report and a file. Out: the file, whose other rows stay. Always true: a row is what one run
counted, never edited by hand.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rushlight.backends import find_backend
from rushlight.testing.conformance.report import Report
from rushlight.testing.conformance.run import REFERENCE

HEAD = """\
# Conformance of the backends

Every op record in every dtype that it takes, and every kind of tile program, compared with the
interpreter: the same bits where a backend promises them, else to a tolerance
(`rushlight/testing/conformance/run.py`). "Refused" is said before anything runs, with the reason.
Rows are written by `rushlight conformance NAME --write docs/conformance.md` (a sample, by a fixed
seed: `--sample N`); random graphs come on top in `make test-backends`. `interp` is what the others
are compared with; it is compared with the records in numpy itself, to a tolerance, where numpy
means the same (`rushlight/testing/conformance/defined.py`: not in casts of what does not fit, whole
quotients by 0, the sine of 3e38). No row is of a GPU: none was at hand. Metal has 31 buffers for a
kernel, two of which are ours: what needs more is refused. WGSL has no memory of 8 or 16 bits.

| backend | ran as | dtypes of records | cases | supported | refused, why | failed |
| --- | --- | --- | --- | --- | --- | --- |
"""
MOST_REASONS = 3
MARK = "| --- | --- |"
# What is worth saying of where it ran: words of `caps.features`, and how they are told.
PLACES = {
    "emulated": "emulated",
    "interpreted": "in its interpreter",
    "Portable Computing Language": "on PoCL",
    "llvmpipe": "on lavapipe",
    "Intel(R) OpenCL": "on Intel's runtime, subgroups of 32",
}
# A backend that ran in a second place has a second row.
SECOND = {"Intel(R) OpenCL": "Intel"}  # fmt: skip


def write_row(path: Path, report: Report, dtypes: str) -> None:
    rows = _rows(path.read_text(encoding="utf-8")) if path.exists() else {}
    features = find_backend(report.backend).require().features
    second = [text for word, text in SECOND.items() if word in features]
    name = " ".join([report.backend, *second])
    rows[name] = _row(name, report, dtypes)
    text = HEAD + "".join(f"{rows[name]}\n" for name in sorted(rows))
    path.write_text(text, encoding="utf-8")


def _rows(text: str) -> dict[str, str]:
    """The rows that are there, by backend."""
    lines = text.partition(MARK)[2].splitlines()[1:]
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


def _row(name: str, report: Report, dtypes: str) -> str:
    total, good = len(report.outcomes), report.count("supported")
    caps = find_backend(report.backend).require()
    told = [text for word, text in PLACES.items() if word in caps.features]
    ran_as = ", ".join(["the same bits" if caps.exact else "to a tolerance", *told])
    if report.backend == REFERENCE:
        ran_as = "against the records in numpy, to a tolerance"
    reasons = Counter(o.text for o in report.outcomes if o.status == "refused")
    why = "; ".join(f"{count} {text}" for text, count in reasons.most_common(MOST_REASONS))
    refused = f"{report.count('refused')} ({why})" if why else "0"
    share = f"{good} ({100 * good / max(1, total):.1f} %)"
    cells = (name, ran_as, dtypes, total, share, refused, report.count("failed"))
    return f"| {' | '.join(map(str, cells))} |"
