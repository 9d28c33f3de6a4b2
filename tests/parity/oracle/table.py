"""results.tsv: for every op, variant and dtype how many samples pass, of how many.

Columns: forward, gradient, forms (method, in place, out=), memory (views alias where PyTorch's do),
errors (the right exception type); of some samples: vmap (as a loop), unlooped (without a loop over
the examples), vmap_grad (gradients of each example), jvp and second (derivatives). A `-` is a
column without samples. Counts may only grow.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

REPLAYED = ("forward", "gradient", "forms", "memory", "errors")
TRANSFORMED = ("vmap", "unlooped", "vmap_grad", "jvp", "second")
COLUMNS = (*REPLAYED, *TRANSFORMED)
TABLE = Path(__file__).with_name("results.tsv")
PAGE = Path(__file__).parents[3] / "docs" / "coverage.md"
INTRODUCTION = """# Which of PyTorch's own tests pass

Every sample of PyTorch 2.13's databases of operators, modules and optimizers is replayed and
compared: values, dtypes and shapes (*forward*), gradients, the other forms (method, in place,
`out=`), whether a result shares its input's memory, and the type of the error that a wrong call
raises. A few samples of each op are mapped over batches and differentiated again: *vmap* equals a
loop over the examples, *unlooped* without calling for each example, *vmap_grad* gradients of each
example, *jvp* forward mode, *second* gradients of gradients.
An op counts where all its samples pass. `make oracle` runs it (needs PyTorch),
`make oracle ARGS=--update` writes what is better into `tests/parity/oracle/results.tsv`; this page
is made from that file by `python tests/parity/oracle/table.py`. Known differences that stay are in
[its README](../tests/parity/oracle/README.md).
"""
Key = tuple[str, str, str]
Counts = dict[str, tuple[int, int]]  # column -> passed, total


def read() -> dict[Key, Counts]:
    if not TABLE.exists():
        return {}
    head, *rows = [line.split("\t") for line in TABLE.read_text().splitlines()]
    return {(r[0], r[1], r[2]): dict(_counts(head[3:], r[3:])) for r in rows}


def _counts(columns: Iterable[str], cells: Iterable[str]) -> Iterable[tuple[str, tuple[int, int]]]:
    for column, cell in zip(columns, cells, strict=True):
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


def joined(
    old: dict[Key, Counts], new: dict[Key, Counts], columns: Iterable[str]
) -> dict[Key, Counts]:
    """The old table with these columns of the new one."""
    found = dict(old)
    for key, counts in new.items():
        kept = {c: v for c, v in old.get(key, {}).items() if c not in columns}
        found[key] = kept | counts
    return found


def lost(old: dict[Key, Counts], new: dict[Key, Counts], columns: Iterable[str]) -> dict[Key, str]:
    """What passed and does not, among samples of the same number."""
    found = {}
    for key in sorted(old.keys() & new.keys()):
        for column in columns:
            passed, total = old[key].get(column, (0, 0))
            now, count = new[key].get(column, (0, total))
            if count == total and now < passed:
                found[key] = f"{' '.join(key)}: {column} was {passed}/{total}, is {now}/{count}"
    return found


def kind_of(key: Key) -> str:
    """A line of the summary: modules, optimizers, or the dtype of an op."""
    return f"{key[1]}s" if key[1] in ("module", "optimizer") else key[2]


def totals(table: dict[Key, Counts]) -> dict[str, dict[str, tuple[int, int, int, int]]]:
    """Line -> column -> ops that pass in every sample, ops, samples that pass, samples."""
    found: dict[str, dict[str, tuple[int, int, int, int]]] = {}
    for key, counts in sorted(table.items()):
        line = found.setdefault(kind_of(key), {})
        for column, (passed, total) in counts.items():
            now = (int(passed == total), 1, passed, total)
            old = line.get(column, (0, 0, 0, 0))
            line[column] = tuple(a + b for a, b in zip(old, now, strict=True))  # type: ignore
    return found


def summary(table: dict[Key, Counts]) -> list[str]:
    """A line for each dtype and kind: how many ops pass in every sample, how many samples."""
    lines = []
    for name, columns in sorted(totals(table).items()):
        parts = [
            "{} {}/{} ({}/{})".format(column, *columns[column])
            for column in COLUMNS
            if column in columns
        ]
        lines.append(f"{name:10s} ops (samples): " + "  ".join(parts))
    return lines


def page(table: dict[Key, Counts]) -> str:
    """docs/coverage.md: the summary as a table, and what does not pass."""
    lines = [INTRODUCTION, "| | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    for name, columns in sorted(totals(table).items()):
        cells = [_cell(columns.get(column)) for column in COLUMNS]
        lines.append("| " + " | ".join((name, *cells)) + " |")
    lines += [
        "",
        "## What does not pass",
        "",
        "| op | dtype | column | samples |",
        "| --- |" + " --- |" * 3,
    ]
    for key, counts in sorted(table.items()):
        for column, (passed, total) in counts.items():
            if passed < total:
                name = " ".join(filter(None, key[:2]))
                lines.append(f"| {name} | {key[2]} | {column} | {passed} of {total} |")
    return "\n".join(lines) + "\n"


def _cell(counts: tuple[int, int, int, int] | None) -> str:
    if counts is None:
        return ""
    passed, of = counts[:2]
    return f"{passed} of {of} ({100 * passed / of:.1f} %)"


def main() -> None:
    """Print the summary of the stored table; write the page."""
    stored = read()
    print(*summary(stored), sep="\n")
    PAGE.write_text(page(stored))


if __name__ == "__main__":
    main()
