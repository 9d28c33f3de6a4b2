"""results.tsv: for every op, variant and dtype how many samples pass, of how many.

Columns: forward, gradient, forms (method, in place, out=), memory (views alias where PyTorch's do),
errors (the right exception type). A `-` is a column without samples. Counts may only grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

COLUMNS = ("forward", "gradient", "forms", "memory", "errors")
TABLE = Path(__file__).with_name("results.tsv")
Key = tuple[str, str, str]
Counts = dict[str, tuple[int, int]]  # column -> passed, total


def read() -> dict[Key, Counts]:
    if not TABLE.exists():
        return {}
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
    return {(r[0], r[1], r[2]): dict(_counts(r[3:])) for r in rows}


def _counts(cells: Iterable[str]) -> Iterable[tuple[str, tuple[int, int]]]:
    for column, cell in zip(COLUMNS, cells, strict=True):
        if cell != "-":
            passed, _, total = cell.partition("/")
            yield column, (int(passed), int(total))


def write(table: dict[Key, Counts]) -> None:
    lines = ["\t".join(("op", "variant", "dtype", *COLUMNS))]
    for key in sorted(table):
        counts = table[key]
        cells = ["/".join(map(str, counts[c])) if c in counts else "-" for c in COLUMNS]
        lines.append("\t".join((*key, *cells)))
    TABLE.write_text("\n".join(lines) + "\n")


def lost(old: dict[Key, Counts], new: dict[Key, Counts]) -> list[str]:
    """What passed and does not, among samples of the same number."""
    found = []
    for key in sorted(old.keys() & new.keys()):
        for column, (passed, total) in old[key].items():
            now, count = new[key].get(column, (0, total))
            if count == total and now < passed:
                found.append(f"{' '.join(key)}: {column} was {passed}/{total}, is {now}/{count}")
    return found


def summary(table: dict[Key, Counts]) -> list[str]:
    """A line for each dtype: how many ops pass in every sample, how many samples."""
    lines = []
    for dtype in sorted({key[2] for key in table}):
        ops: Counter[str] = Counter()
        of: Counter[str] = Counter()
        samples: Counter[str] = Counter()
        every: Counter[str] = Counter()
        for key, counts in table.items():
            if key[2] != dtype:
                continue
            for column, (passed, total) in counts.items():
                ops[column] += passed == total
                of[column] += 1
                samples[column] += passed
                every[column] += total
        parts = [f"{c} {ops[c]}/{of[c]} ({samples[c]}/{every[c]})" for c in COLUMNS if of[c]]
        lines.append(f"{dtype:9s} ops (samples): " + "  ".join(parts))
    return lines
