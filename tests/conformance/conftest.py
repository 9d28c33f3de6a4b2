"""Which backend the suite is about, and the table that it prints at the end."""

import pytest

from rushlight.backends import find_backend
from rushlight.compiler.target import Missing
from rushlight.testing.conformance import Report

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


def pytest_terminal_summary(terminalreporter):
    for report in _REPORTS:
        if report.outcomes:
            terminalreporter.write_line("")
            terminalreporter.write_line(report.text())
