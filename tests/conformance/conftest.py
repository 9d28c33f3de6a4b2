"""Which backend the suite is about, and the table that it prints at the end."""

import pytest

from rushlight.backends import find_backend
from rushlight.compiler.target import Missing
from rushlight.testing.conformance import Case, Outcome, Report

_REPORTS: list[Report] = []


@pytest.fixture(scope="session")
def backend(request):
    found = find_backend(request.config.getoption("--backend"))
    caps = found.find()
    if isinstance(caps, Missing):
        pytest.skip(f"{found.name} is not here: {caps.reason} {caps.fix}")
    return found


@pytest.fixture(scope="session")
def report(backend):
    found = Report(backend.name)
    _REPORTS.append(found)
    return found


def pytest_sessionfinish(session):
    """A process of pytest-xdist hands on what it saw."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["conformance"] = [
            (r.backend, o.case.group, o.case.name, o.case.dtype, o.status, o.text)
            for r in _REPORTS
            for o in r.outcomes
        ]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for name, group, case, dtype, status, text in node.workeroutput.get("conformance", ()):
        if not _REPORTS:
            _REPORTS.append(Report(name))
        _REPORTS[0].add([Outcome(Case(group, case, dtype, list), status, text)])


def pytest_terminal_summary(terminalreporter):
    for report in _REPORTS:
        if report.outcomes:
            terminalreporter.write_line("")
            terminalreporter.write_line(report.text())
