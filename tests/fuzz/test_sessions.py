"""Random sessions of a user: values are made, held, let go, updated in place and flushed.

Everything goes through the engine (its cache of programs, donated memory, saved values); what is
held at the end of a flush must be what the interpreter computes for it.
"""

from __future__ import annotations

import random

import fuzz_graphs
import numpy as np
import pytest
from fuzz_run import bits, difference, read_leaf, reference

from rushlight.engine import realize
from rushlight.engine.live import Ref
from rushlight.ir.node import Node


class Session:
    """Held values with the arrays that they must keep."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"session {seed}")
        self.held: list[Ref] = []
        self.expected: list[np.ndarray] = []

    def hold(self, node: Node, array: np.ndarray) -> None:
        self.held.append(Ref(node))
        self.expected.append(array)

    def let_go(self, share: float) -> None:
        kept = [i for i in range(len(self.held)) if self.rng.random() >= share]
        self.held = [self.held[i] for i in kept]
        self.expected = [self.expected[i] for i in kept]

    def check(self) -> None:
        for ref, want in zip(self.held, self.expected, strict=True):
            got = read_leaf(ref.node)
            wrong = difference(got, want)
            assert not wrong, f"{ref.node}: {wrong}"


def play(seed: int, choices: tuple[int, ...]) -> list[list[bytes]]:
    """One session per size choice, in turn; the bits of what was held at the end of each."""
    found = []
    for choice in choices:
        session = Session(seed)
        graph = fuzz_graphs.generate(seed, choice)
        nodes = [v.node for v in graph.values]
        arrays = reference(nodes)
        del graph
        for i in range(len(nodes)):
            node, nodes[i] = nodes[i], None  # the session alone holds values
            if session.rng.random() < 0.8:
                session.hold(node, arrays[i])
            del node
            if session.rng.random() < 0.15:
                session.let_go(0.2)
                realize.flush()
                session.check()
        realize.flush()
        session.check()
        found.append([bits(read_leaf(ref.node)) for ref in session.held])
    return found


@pytest.mark.parametrize("seed", range(8))
def test_session_keeps_the_values_that_are_held(seed: int) -> None:
    play(seed, (0,))


@pytest.mark.parametrize("seed", range(100, 106))
def test_static_and_symbolic_programs_give_the_same_bits(seed: int) -> None:
    first, _, again, _ = play(seed, (0, 1, 2, 3))[:4]
    fresh = realize.PROGRAMS
    realize.PROGRAMS = type(fresh)()
    try:
        (alone,) = play(seed, (2,))
    finally:
        realize.PROGRAMS = fresh
    assert again == alone
    assert play(seed, (0,)) == [first]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 600))
def test_many_sessions(seed: int) -> None:
    test_static_and_symbolic_programs_give_the_same_bits(seed)
