"""Programs and their code stay bounded in memory, however many structures a process sees."""

from __future__ import annotations

import random
import resource

import pytest

import rushlight as torch
from rushlight.engine import programs, realize


def one_structure(number: int) -> float:
    pick = random.Random(number)
    x = torch.ones(3)
    for _ in range(6):
        x = pick.choice((torch.exp, torch.neg, torch.tanh, torch.abs, torch.square))(x)
    return x.sum().item()


def test_least_used_structures_are_dropped(monkeypatch: pytest.MonkeyPatch):
    cache = programs.ProgramCache()
    monkeypatch.setattr(realize, "PROGRAMS", cache)
    monkeypatch.setattr(programs, "MAX_FAMILIES", 4)
    expected = [one_structure(n) for n in range(8)]
    assert len(cache._families) == 4
    built = cache.compiled
    assert one_structure(7) == expected[7] and cache.compiled == built
    assert one_structure(0) == expected[0] and cache.compiled == built + 1


@pytest.mark.slow
def test_thousands_of_programs_run_in_bounded_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "MAX_FAMILIES", 64)
    monkeypatch.setattr("rushlight.engine.kernels.MAX_IN_MEMORY", 64)
    for n in range(300):
        one_structure(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for n in range(300, 3000):
        one_structure(n)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
