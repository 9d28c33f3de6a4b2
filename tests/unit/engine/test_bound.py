"""Long programs without a look: bounded waiting, few programs, no recursion."""

import numpy as np

import rushlight as torch
from rushlight.base.config import config
from rushlight.engine.programs import ProgramCache
from rushlight.ir.node import topological


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


def test_a_loop_that_fills_a_tensor_is_computed_as_it_goes(fresh_programs: ProgramCache) -> None:
    filled, expected = torch.zeros(200, 6), np.zeros((200, 6), np.float32)
    for i in range(200):
        start = i * 7 % 4
        filled[i, start : start + 2] += i
        filled[i // 2] = filled[i // 2] * 2
        expected[i, start : start + 2] += i
        expected[i // 2] *= 2
    assert len(list(topological([filled._storage.node], lambda n: n.leaf))) < 20
    np.testing.assert_array_equal(filled.numpy(), expected)
    assert fresh_programs.compiled <= 12  # the same few for all later writes


def test_a_few_writes_are_one_program(fresh_programs: ProgramCache) -> None:
    filled = torch.zeros(8, 3)
    for _ in range(2):  # a look between them: each time the count starts again
        for i in range(8):
            filled[i] = filled[i] + i
        assert filled[:, 0].sum().item()
    assert fresh_programs.compiled <= 2


def test_a_captured_loop_is_not_cut() -> None:
    @torch.compile(fullgraph=True)
    def fill(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(40, 3)
        for i in range(40):
            out[i] = x * i
        return out

    for _ in range(2):
        assert fill(torch.ones(3)).sum(1).tolist() == [3 * i for i in range(40)]
