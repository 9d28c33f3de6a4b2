"""Long programs without a look: bounded waiting, few programs, no recursion."""

import rushlight as torch
from rushlight.base.config import config
from rushlight.engine.programs import ProgramCache


def test_a_loop_without_a_look_is_cut_at_one_place_of_its_body(
    fresh_programs: ProgramCache,
) -> None:
    b, expected = torch.full((4,), 0.5), 0.5
    with config.override(max_pending=200):
        for _ in range(1000):
            b = b * 0.5
            b = b + 0.25
        cuts = fresh_programs.compiled
    for _ in range(1000):
        expected = expected * 0.5 + 0.25
    assert b.tolist() == [expected] * 4
    assert 1 <= cuts <= 3  # first stretch, later stretches (seen once: static; twice: symbolic)


def test_what_waits_is_bounded() -> None:
    with config.override(max_pending=100):
        kept = [torch.ones(2)]
        for _ in range(400):
            kept.append(kept[-1] + 1)
    waiting = [t for t in kept if t._storage.node.leaf != "buffer"]
    assert 0 < len(waiting) <= 150
    assert kept[-1].tolist() == [401, 401]


def test_chains_longer_than_the_stack_of_python() -> None:
    a = torch.zeros(2, requires_grad=True)
    b, view = a, torch.arange(2500.0)
    for _ in range(1500):
        b = b + 1
        view = view[1:]
    b.sum().backward()
    assert b.tolist() == [1500, 1500] and a.grad.tolist() == [1, 1]
    assert view[:2].tolist() == [1500, 1501]
