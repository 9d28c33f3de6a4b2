"""Numbers of a user's class in compiled functions: attributes count, not the value alone."""

import enum

import pytest

import rushlight as torch
from rushlight.engine.checks import PLAIN_TIMES
from tests.unit.tensors.compile_checks import array

TIMES = PLAIN_TIMES + 5


class Number(float):
    gain = 1


class Kind(enum.IntEnum):
    LOW = 2
    HIGH = 3


def number(gain):
    made = Number(1.0)
    made.gain = gain
    return made


GIVEN = number(2)
HELD = [number(2)]
READS = {
    "global": (lambda x: x * GIVEN.gain, GIVEN),
    "in a list": (lambda x: x * HELD[0].gain, HELD[0]),
}


@pytest.mark.parametrize("where", READS)
def test_an_attribute_that_changes_is_seen(where):
    f, held = READS[where]
    run, x = torch.compile(f), array(3)
    for gain in (2, 5):
        held.gain = gain
        for _ in range(TIMES):
            assert run(x).tolist() == f(x).tolist()
    assert run.replays >= TIMES


def test_arguments_of_equal_value_are_not_the_same():
    f = lambda x, n: x * n.gain  # noqa: E731
    run, x = torch.compile(f), array(3)
    for given in (number(2), number(5)):
        for _ in range(TIMES):
            assert run(x, given).tolist() == f(x, given).tolist()
    assert run.replays >= TIMES


def test_members_of_an_enumeration_are_replayed():
    f = lambda x, kind: x * kind  # noqa: E731
    run, x = torch.compile(f, fullgraph=True), array(3)
    for kind in (Kind.LOW, Kind.HIGH):
        for _ in range(TIMES):
            assert run(x, kind).tolist() == f(x, kind).tolist()
    assert run.replays >= TIMES


def test_attributes_of_tensors_that_are_such_numbers_are_seen():
    f = lambda x: x * x.scale.gain  # noqa: E731
    run, x = torch.compile(f), array(3)
    x.scale = number(2)
    for gain in (2, 5):
        x.scale.gain = gain
        for _ in range(TIMES):
            assert run(x).tolist() == f(x).tolist()
