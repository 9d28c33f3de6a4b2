"""Random sessions of a user: values are made, held, let go, updated in place and flushed.

Everything goes through the engine (its cache of programs, donated memory, saved values); what is
held at the end of a flush must be what the interpreter computes for it.
"""

from __future__ import annotations

import random

import fuzz_graphs
import numpy as np
import pytest
from fuzz_run import bits, difference, read_leaf, reference, tolerance_of

from rushlight.engine import realize
from rushlight.engine.live import Ref
from rushlight.ir.node import Node


class Session:
    """A graph that grows step by step. Every value is held, with the array it must keep, until it
    is let go; then no later step reads it."""

    def __init__(self, seed: int, choice: int) -> None:
        self.rng = random.Random(f"session {seed}")
        self.seed = seed
        self.maker = fuzz_graphs.Maker(seed, fuzz_graphs.sizes_of(seed, choice))
        self.held: dict[fuzz_graphs.Value, tuple[Ref, np.ndarray]] = {}
        self.tolerance: dict[Node, float] = {}
        self.maker.inputs(random.Random(f"inputs {seed}"))
        self.hold_new()

    def step(self, number: int) -> None:
        self.maker.step(random.Random(f"step {self.seed} {number}"))
        self.hold_new()

    def hold_new(self) -> None:
        new = [v for v in self.maker.graph.values if v not in self.held]
        arrays = reference([v.node for v in new])
        for value, array in zip(new, arrays, strict=True):
            self.held[value] = (Ref(value.node), array)
            self.tolerance[value.node] = tolerance_of(value.node, self.tolerance)

    def let_go(self, share: float) -> None:
        values = self.maker.graph.values
        values[:] = [v for v in values if self.rng.random() >= share]
        self.held = {v: self.held[v] for v in values}
        self.tolerance = {v.node: self.tolerance[v.node] for v in values}

    def flush(self) -> None:
        realize.flush()
        for ref, want in self.held.values():
            wrong = difference(read_leaf(ref.node), want, self.tolerance[ref.node])
            assert not wrong, f"{ref.node}: {wrong}"


def play(seed: int, choice: int) -> list[bytes]:
    """The bits of what is held at the end of a session."""
    session = Session(seed, choice)
    for number in range(session.rng.choice((8, 12, 16, 24))):
        session.step(number)
        if session.rng.random() < 0.25:
            session.let_go(0.3)
            session.flush()
    session.flush()
    return [bits(read_leaf(ref.node)) for ref, _ in session.held.values()]


@pytest.mark.parametrize("seed", range(8))
def test_session_keeps_the_values_that_are_held(seed: int) -> None:
    play(seed, 0)


@pytest.mark.parametrize("seed", range(100, 105))
def test_static_and_symbolic_programs_give_the_same_bits(seed: int) -> None:
    """The second and third sizes go through programs with variables."""
    first, _, third = (play(seed, choice) for choice in (0, 1, 2))
    with_variables = realize.PROGRAMS
    realize.PROGRAMS = type(with_variables)()
    try:
        static = play(seed, 2)
    finally:
        realize.PROGRAMS = with_variables
    assert third == static
    assert play(seed, 0) == first


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 700))
def test_many_sessions(seed: int) -> None:
    test_static_and_symbolic_programs_give_the_same_bits(seed)
