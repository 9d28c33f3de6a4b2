"""`Compare`: a table of measurements, variants in columns."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.utils.benchmark.timer import Measurement, select_unit


class Compare:
    """Measurements with one label are one table: rows are sub-labels, columns descriptions."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Accepted: times have four figures."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted: the table is plain text."""

    def highlight_warnings(self) -> None:
        """Accepted."""

    def print(self) -> None:
        print(str(self))

    def __str__(self) -> str:
        labels = dict.fromkeys(m.label or m.stmt for m in self._results)
        return "\n".join(self._table(label) for label in labels)

    def _table(self, label: str) -> str:
        found = [m for m in self._results if (m.label or m.stmt) == label]
        columns = list(dict.fromkeys(m.description or m.stmt for m in found))
        rows = list(dict.fromkeys(m.sub_label or m.stmt for m in found))
        unit, size = select_unit(min(m.median for m in found))
        cells = {(m.sub_label or m.stmt, m.description or m.stmt): f"{m.median / size:.4g}"
                 for m in found}  # fmt: skip
        first = max(map(len, rows))
        widths = [max(len(c), *(len(cells.get((r, c), "")) for r in rows)) for c in columns]
        lines = [f"[{label}]", "  |  ".join([" " * first, *columns])]
        for row in rows:
            values = [
                f"{cells.get((row, c), ''):>{w}}" for c, w in zip(columns, widths, strict=True)
            ]
            lines.append("  |  ".join([f"{row:<{first}}", *values]))
        return "\n".join([*lines, f"Times are in {unit}."])
