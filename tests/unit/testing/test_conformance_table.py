"""The page of all backends: a run puts in its own row and leaves the others."""

from __future__ import annotations

from rushlight.testing.conformance import Case, Outcome, Report, write_row

CASE = Case("template", "by hand", "", lambda: [])


def report(backend: str, *statuses: str) -> Report:
    found = Report(backend)
    found.add(Outcome(CASE, status, f"no {status}") for status in statuses)
    return found


def test_a_row_is_put_in_beside_the_others(tmp_path) -> None:
    path = tmp_path / "table.md"
    write_row(path, report("llvm", "supported", "supported"), "all")
    write_row(path, report("interp", "supported", "failed", "refused"), "float32")
    rows = [line for line in path.read_text().splitlines() if line.startswith(("| i", "| l"))]
    assert rows == [
        "| interp | against the records in numpy, to a tolerance | float32 | 3 | 1 (33.3 %) | "
        "1 (1 no refused) | 1 |",
        "| llvm | the same bits | all | 2 | 2 (100.0 %) | 0 | 0 |",
    ]


def test_a_new_run_replaces_its_row(tmp_path) -> None:
    path = tmp_path / "table.md"
    write_row(path, report("llvm", "failed"), "all")
    write_row(path, report("llvm", "supported"), "all")
    text = path.read_text()
    assert text.count("| llvm |") == 1 and "| 1 (100.0 %) | 0 | 0 |" in text
