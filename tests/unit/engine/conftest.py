"""Programs of their own for every test: kernels are numbered from k0."""

import pytest

from rushlight.engine import explain, realize
from rushlight.engine.programs import ProgramCache


@pytest.fixture(autouse=True)
def fresh_programs(monkeypatch):
    programs = ProgramCache()
    realize.flush()
    monkeypatch.setattr(realize, "PROGRAMS", programs)
    monkeypatch.setattr(explain, "PROGRAMS", programs)
    return programs
