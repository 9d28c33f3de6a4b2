"""Which program a recording gets: templates over sizes and offsets, and how many are compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import rushlight.ops as O
from rushlight.base.dtypes import DType, float32
from rushlight.engine.programs import ProgramCache
from rushlight.engine.realize import run_program, site_text
from rushlight.engine.signature import offset_positions, record
from rushlight.engine.template import make_template
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, buffer_node, scalar_node
from rushlight.runtime.buffer import allocate

rng = np.random.default_rng(0)


def floats(*shape: int, dtype: DType = float32) -> Node:
    array = rng.standard_normal(shape).astype(dtype.np)
    memory = allocate(array.nbytes)
    memory.view(dtype, shape)[...] = array
    return buffer_node(memory, shape, dtype)


class Engine:
    """A cache of programs, and a way to compute roots with it."""

    def __init__(self) -> None:
        self.programs = ProgramCache()

    def run(self, *roots: Node) -> list[np.ndarray]:
        recording = record(roots)
        program, values = self.programs.find(recording, frozenset(), site_text)
        inputs = [n.buffer for n in recording.inputs]
        buffers = run_program(program, values, inputs, recording.numbers)
        return [b.view(n.dtype, n.shape) for n, b in zip(recording.roots, buffers, strict=True)]

    def check(self, *roots: Node) -> None:
        want = interpret(list(roots), lambda leaf: leaf.buffer.view(leaf.dtype, leaf.shape))
        for a, b in zip(self.run(*roots), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture
def engine() -> Engine:
    return Engine()


# templates alone ------------------------------------------------------------


def template(samples: Sequence[Sequence[int]], offsets: set[int] = frozenset()):
    return make_template(np.array(samples, np.int64), frozenset(offsets))


def test_one_sample_matches_itself_only() -> None:
    t = template([[3, 4, 3]])
    assert t.names == ()
    assert t.match(np.array([3, 4, 3])) is not None
    assert t.match(np.array([3, 5, 3])) is None


def test_what_varied_is_a_variable_and_equal_columns_share_one() -> None:
    t = template([[3, 4, 3, 8], [5, 4, 5, 9]])
    assert t.names == ("s0", "s1")
    assert t.match(np.array([7, 4, 7, 7])).tolist() == [7, 7]
    assert t.match(np.array([7, 4, 8, 7])) is None  # one variable, two values
    assert t.match(np.array([7, 5, 7, 7])) is None  # never varied


def test_sizes_that_were_equal_by_chance_are_told_apart() -> None:
    """6 and 6 at first sight; the second sample separates them."""
    t = template([[6, 6], [6, 7], [8, 9]])
    assert t.match(np.array([10, 11])).tolist() == [10, 11]
    assert t.match(np.array([6, 6])).tolist() == [6, 6]


def test_products_are_no_variables() -> None:
    t = template([[16, 2, 8, 6, 32], [27, 3, 9, 9, 54]])
    assert t.names == ("s0", "s1")
    s0, s1 = t.sizes([16, 2, 8, 6, 32])[1:3]
    assert t.sizes([16, 2, 8, 6, 32]) == [s0 * s1, s0, s1, s0 * 3, s0 * s1 * 2]
    assert t.match(np.array([20, 4, 5, 12, 40])).tolist() == [4, 5]
    assert t.match(np.array([20, 4, 5, 13, 40])) is None


def test_a_product_by_chance_is_told_apart() -> None:
    samples = [[4, 8], [8, 16]]
    assert template(samples).names == ("s0",)
    assert template([*samples, [9, 17]]).names == ("s0", "s1")


def test_offsets_that_vary_are_variables_of_their_own() -> None:
    """Also when they equal a size, or each other, in all samples."""
    t = template([[3, 3, 4, 4], [5, 5, 6, 6]], {1, 2})
    assert t.names == ("s0", "o1", "o2", "s3")
    assert t.match(np.array([3, 99, 7, 4])).tolist() == [3, 99, 7, 4]


# programs ------------------------------------------------------------


def test_the_same_recording_is_compiled_once(engine: Engine) -> None:
    for _ in range(3):
        engine.check(O.exp(floats(5, 7)))
    assert engine.programs.compiled == 1


def test_numbers_never_recompile_and_offsets_once(engine: Engine) -> None:
    for start in range(6):
        x = O.slice_(floats(20), (start,), (8,), (1,))
        engine.check(O.mul(x, scalar_node(0.1 * start, float32)))
        if start == 0:
            engine.check(O.mul(x, scalar_node(7.5, float32)))
            assert engine.programs.compiled == 1
    assert engine.programs.compiled == 2


def test_a_size_that_varies_is_compiled_twice_at_most(engine: Engine) -> None:
    for n in (5, 9, 33, 5, 1000, 2, 64):
        x = floats(n, 16)
        engine.check(O.softmax(x, 1), O.reduce_sum(x, (0,)))
    assert engine.programs.compiled == 2


def test_a_decode_loop_of_512_lengths_builds_three_programs_at_most(engine: Engine) -> None:
    """One query against a cache that grows by one row; length 1 is a structure of its own."""
    keys, weight = floats(512, 32), floats(32, 32)
    for length in range(1, 513):
        q = floats(1, 32)
        seen = O.slice_(keys, (0, 0), (length, 32), (1, 1))
        scores = O.dot(O.dot(q, weight), O.permute(seen, (1, 0)))
        out = O.dot(O.softmax(O.mul(scores, 0.17), 1), seen)
        (engine.check if length % 64 == 1 else engine.run)(out)
    assert engine.programs.compiled <= 3


def test_a_collision_of_sizes_does_not_recompile_once_symbolic(engine: Engine) -> None:
    for n, m in ((5, 9), (6, 8), (7, 7), (9, 5), (32, 32)):
        engine.check(O.dot(floats(n, 4), floats(4, m)))
    assert engine.programs.compiled == 2


def test_a_collision_at_first_sight_is_compiled_once_more(engine: Engine) -> None:
    for n, m in ((7, 7), (6, 6), (5, 9), (8, 3), (4, 4)):
        engine.check(O.dot(floats(n, 4), floats(4, m)))
    assert engine.programs.compiled == 3


def test_sizes_0_and_1_are_structure(engine: Engine) -> None:
    for n in (4, 1, 0, 5):
        engine.check(O.add(floats(n, 3), floats(4 if n == 1 else n, 3)))
    assert engine.programs.compiled == 4


def test_product_of_variables_is_found_in_the_shape_of_a_reshape(engine: Engine) -> None:
    for b, t in ((2, 8), (3, 9), (4, 5)):
        x = O.reshape(floats(b, t, 16), (b * t, 16))
        engine.check(O.reshape(O.dot(x, floats(16, 24)), (b, t, 24)))
    assert engine.programs.compiled == 2


def test_the_epilogue_of_a_contraction_stays_in_its_kernel_with_variable_sizes(
    engine: Engine,
) -> None:
    for b, t in ((2, 8), (3, 9)):
        x = O.dot(O.reshape(floats(b, t, 16), (b * t, 16)), floats(16, 24))
        root = O.tanh(O.add(O.reshape(x, (b, t, 24)), floats(24)))
        program, _ = engine.programs.find(record([root]), frozenset(), site_text)
        assert len([call for region in program.plan.regions for call in region]) == 1


def test_offsets_are_found_among_the_ints() -> None:
    recording = record([O.slice_(floats(20, 5), (3, 0), (8, 5), (2, 1))])
    found = [recording.ints[p] for p in sorted(offset_positions(recording))]
    assert found == [3, 0]


def test_numbers_are_no_part_of_the_structure() -> None:
    x = floats(4)
    keys = {record([O.mul(x, scalar_node(v, float32))]).key for v in (0.0, 1.0, -3.5)}
    assert len(keys) == 1


def test_order_of_roots_and_constants_are_structure() -> None:
    x = floats(4)
    a, b = O.exp(x), O.tanh(x)
    assert record([a, b]).key != record([b, a]).key
    assert record([O.mul(x, 2.0)]).key != record([O.mul(x, 3.0)]).key
    assert record([O.mul(x, 0.0)]).key != record([O.mul(x, -0.0)]).key
