"""One backend does all it claims: `pytest tests/conformance --backend=NAME` (llvm if not given).

Cases that the backend refuses with a reason are skipped; the table at the end counts them. All op
records are slow; the fast tests have a sample of them in place of all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rushlight.ir.opdef import all_ops
from rushlight.testing.conformance import (
    Case,
    Outcome,
    all_record_cases,
    check,
    record_cases,
    template_cases,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))
from fuzz_graphs import generate  # noqa: E402

TEMPLATES = {case.name: case for case in template_cases()}
SEEDS = range(12)
SAMPLE = all_record_cases(60)


def judged(outcomes: list[Outcome]) -> None:
    failed = [f"{o.case.dtype}: {o.text}" for o in outcomes if o.status == "failed"]
    assert not failed, "\n".join(failed)
    if outcomes and all(outcome.status == "refused" for outcome in outcomes):
        pytest.skip(outcomes[0].text)


@pytest.mark.parametrize("vary", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_template(name, vary, backend, report) -> None:
    outcome = check(TEMPLATES[name], backend.name, vary)
    report.add([outcome])
    judged([outcome])


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: f"{case.name}-{case.dtype}")
def test_sampled_record(case, backend, report) -> None:
    outcome = check(case, backend.name)
    report.add([outcome])
    judged([outcome])


@pytest.mark.slow
@pytest.mark.parametrize("record", all_ops().values(), ids=lambda record: record.name)
def test_record(record, backend, report) -> None:
    outcomes = [check(case, backend.name) for case in record_cases(record)]
    report.add(outcomes)
    judged(outcomes)
    assert any(o.status != "undefined" for o in outcomes), "no dtype in which it is defined"


@pytest.mark.parametrize("vary", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_graph(seed, vary, backend, report) -> None:
    case = Case("graph", f"seed {seed}", "", lambda: list(dict.fromkeys(generate(seed).roots)))
    outcome = check(case, backend.name, vary)
    report.add([outcome])
    judged([outcome])
