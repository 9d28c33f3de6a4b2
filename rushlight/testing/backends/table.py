"""A Comparison as lines of text, and as cells for other forms.

Columns: correctness (right or not; the largest error against the first backend in absolute value,
relative value and units in the last place; where the first difference is), determinism, the first
call, the steady time (median, 95th percentile, relative to the first backend), memory.
"""

from __future__ import annotations

import numpy as np

from rushlight.testing.backends.compare import BackendResult, Comparison

HEADING = (
    "backend", "correctness", "max error", "rel", "ulp", "first difference", "determinism",
    "first call", "steady p50", "p95", "relative", "memory",
)  # fmt: skip


def rows(seen: Comparison) -> list[tuple[str, ...]]:
    return [_row(result, seen) for result in seen.results]


def table(seen: Comparison) -> str:
    """The table, then what is wrong in words."""
    lines = [HEADING, *rows(seen)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADING))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*text, *notes(seen)])


def notes(seen: Comparison) -> list[str]:
    """Reasons behind the verdicts that are not good."""
    found = []
    for result in seen.results:
        if result.error:
            found.append(f"{result.name}: {result.error[:400]}")
        found += [f"{result.name}: {name}: {why}" for name, why in result.wrong.items()]
    return found


def _row(result: BackendResult, seen: Comparison) -> tuple[str, ...]:
    if result.error:
        return (result.name, "ERROR", *[""] * (len(HEADING) - 2))
    far = None if result.against is None else result.against[1]
    ratio = seen.ratio(result)
    times = np.array(result.times_s or [np.nan]) * 1e3
    return (
        result.name,
        "PASS" if result.is_right else "FAIL",
        f"{far.absolute:.3g}" if far else "",
        f"{far.relative:.3g}" if far else "",
        str(far.ulp) if far else "",
        _place(result),
        f"same bits, {len(result.digests)} runs" if result.is_deterministic else "DIFFERS",
        f"{result.first_s:.2f} s",
        f"{np.median(times):.2f} ms",
        f"{np.percentile(times, 95):.2f} ms",
        "" if ratio is None else f"{ratio:.2f} x",
        _size(result.peak_bytes),
    )


def _place(result: BackendResult) -> str:
    if result.first_at:
        return result.first_at
    if result.against is None or result.against[1].same_bits:
        return "none: same bits"
    name, far = result.against
    return f"{name} {list(far.first or ())}"


def _size(nbytes: int) -> str:
    return f"{nbytes / 1024:.1f} KiB" if nbytes < 2**20 else f"{nbytes / 2**20:.1f} MiB"
