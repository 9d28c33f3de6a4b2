"""Comparisons made into code answer what the plain ones would."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from rushlight.engine.checks import MOST_OF_FUNCTION, PLAIN_TIMES, Checks, Compared
from rushlight.engine.code_watch import CodeWatch
from rushlight.engine.guards import take_snapshot


class Thing:
    pass


class Number(float):
    """One with attributes."""


def entry_checks(mapping):
    checks = Checks()
    for key, value in mapping.items():
        checks.add_same(f"{checks.name(mapping)}[{checks.name(key)}]", value)
        checks.next()
    return checks.compiled()


def test_nothing_to_compare_holds():
    assert Checks().compiled()() is True


@pytest.mark.parametrize(
    "before, now, same",
    [
        (1, 1, True), (1, True, False), (1, 1.0, False), (0.0, -0.0, False), (2.5, 2.5 * 1, True),
        ("ab", "".join(["a", "b"]), True), (float("nan"), float("nan"), True), (None, 0, False),
        ((1, 2), (1, 2), False), (Thing(), Thing(), False), ({}, {}, False),
        (Number(1.0), Number(1.0), False), (np.float64(1.5), np.float64(1.5), True),
    ],
)  # fmt: skip
def test_one_value(before, now, same):
    mapping = {"a": before}
    holds = entry_checks(mapping)
    assert holds()
    mapping["a"] = now
    assert holds() is (same or now is before)


def test_a_place_that_is_gone_does_not_hold():
    mapping = {"a": 1}
    holds = entry_checks(mapping)
    del mapping["a"]
    assert not holds()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_items_in_their_order_and_no_others(count):
    items = [Thing() for _ in range(count)]
    checks = Checks()
    checks.add_items(checks.name(items), items)
    holds = checks.compiled()
    assert holds()
    items.append(Thing())
    assert not holds()
    items.pop()
    assert holds()
    if count > 1:
        items.reverse()
        assert not holds()


def test_many_comparisons_are_several_functions():
    mapping = {f"k{number}": Thing() for number in range(2 * MOST_OF_FUNCTION + 5)}
    holds = entry_checks(mapping)
    assert holds()
    for key in ("k0", f"k{MOST_OF_FUNCTION}", f"k{len(mapping) - 1}"):
        was, mapping[key] = mapping[key], None
        assert not holds()
        mapping[key] = was
        assert holds()


def test_a_comparison_becomes_code_after_a_few_times():
    called = []
    compared = Compared(lambda: not called.append(1), lambda checks: checks.add("2 > 1"))
    for _ in range(PLAIN_TIMES + 3):
        assert compared.holds()
    assert len(called) == PLAIN_TIMES


# Everything that `reads_all` reads; CHANGES of it are pairs: the change, and the way back.
NUMBERS = {"rate": 0.5, "steps": 3, "name": "first"}
ORDERED = OrderedDict(a=1, b=2)
KEYED = {Thing: 1, 7: 2}
LIST = [1, [2, 3], ()]
THING = Thing()
THING.value, THING.empty, THING.nothing = 4, {}, []
SCALE = 2.0


def reads_all(extra=5):
    try:
        extra += THING.missing
    except AttributeError:
        pass
    return (NUMBERS["rate"], list(ORDERED), KEYED[7], LIST[1][0], THING.value, THING.empty,
            THING.nothing, SCALE, extra)  # fmt: skip


def set_global(name, value):
    globals()[name] = value


CHANGES = {
    "number": (lambda: NUMBERS.update(rate=0.25), lambda: NUMBERS.update(rate=0.5)),
    "class of a number": (lambda: NUMBERS.update(steps=3.0), lambda: NUMBERS.update(steps=3)),
    "entry more": (lambda: NUMBERS.update(more=1), lambda: NUMBERS.pop("more")),
    "order": (lambda: ORDERED.move_to_end("a"), lambda: ORDERED.move_to_end("b")),
    "key that is no text": (lambda: KEYED.update({7: 3}), lambda: KEYED.update({7: 2})),
    "list": (lambda: LIST.append(1), lambda: LIST.pop()),
    "inner list": (lambda: LIST[1].append(1), lambda: LIST[1].pop()),
    "attribute": (lambda: setattr(THING, "value", 5), lambda: setattr(THING, "value", 4)),
    "attribute more": (lambda: setattr(THING, "missing", 1), lambda: delattr(THING, "missing")),
    "empty dict": (lambda: THING.empty.update(a=1), lambda: THING.empty.clear()),
    "empty list": (lambda: THING.nothing.append(1), lambda: THING.nothing.clear()),
    "global": (lambda: set_global("SCALE", 3.0), lambda: set_global("SCALE", 2.0)),
    "default": (lambda: setattr(reads_all, "__defaults__", (6,)),
                lambda: setattr(reads_all, "__defaults__", (5,))),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("times", [0, PLAIN_TIMES + 1])
def test_a_snapshot_sees_the_same_changes_before_and_after(what, times):
    """By the plain comparisons, and by code."""
    with CodeWatch() as watch:
        reads_all()
    snapshot = take_snapshot(reads_all, watch.codes).seal()
    for _ in range(times):
        assert snapshot.holds()
    change, back = CHANGES[what]
    change()
    try:
        assert not snapshot.holds()
        assert snapshot.difference()
    finally:
        back()
