"""Panels that stay between runs: who gets them, when they are given up."""

from __future__ import annotations

import gc

import pytest

from rushlight.base.config import config
from rushlight.base.errors import OutOfMemoryError
from rushlight.runtime import packed
from rushlight.runtime.buffer import allocate
from rushlight.runtime.packed import TO_FILL, Keep, PackedForms

NBYTES = 1 << 20


def use(forms: PackedForms, keep: Keep, *inputs, ran: bool = True) -> int:
    """The place that a run gets."""
    lease = forms.lend([keep], inputs)
    forms.settle(lease, ran)
    return lease.places[0]


@pytest.fixture
def forms() -> PackedForms:
    return PackedForms()


KEEP = Keep("panels", (0,), NBYTES)


def test_the_first_use_is_noted_the_second_fills_the_third_reads(forms):
    weight = allocate(NBYTES)
    first, second, third = (use(forms, KEEP, weight) for _ in range(3))
    assert first == 0
    assert second & TO_FILL and third == second - TO_FILL
    assert forms.nbytes() == NBYTES


def test_two_calls_of_one_run_do_not_both_fill(forms):
    weight = allocate(NBYTES)
    use(forms, KEEP, weight)
    lease = forms.lend([KEEP, KEEP], [weight])
    assert lease.places[0] & TO_FILL and lease.places[1] == 0


def test_other_layouts_and_other_buffers_are_apart(forms):
    one, two = allocate(NBYTES), allocate(NBYTES)
    for _ in range(3):
        places = {use(forms, KEEP, one), use(forms, KEEP, two)}
        places.add(use(forms, Keep("others", (0,), NBYTES), one))
    assert len(places) == 3


def test_a_write_makes_panels_worthless(forms):
    weight, other = allocate(NBYTES), allocate(NBYTES)
    for _ in range(3):
        use(forms, KEEP, weight), use(forms, KEEP, other)
    forms.written([weight.address, 12345])
    assert use(forms, KEEP, weight) == 0
    assert use(forms, KEEP, other) != 0


def test_a_write_to_several_sources_of_a_form_at_once(forms):
    weights = [allocate(NBYTES) for _ in range(3)]
    keep = Keep("panels", (0, 1, 2, 0), NBYTES)
    for _ in range(4):
        for _ in range(3):
            use(forms, keep, *weights), use(forms, KEEP, weights[1])
        forms.written([weight.address for weight in weights])
        assert not forms.at and forms.nbytes() == 0


def test_a_write_during_the_run_that_fills_counts(forms):
    weight = allocate(NBYTES)
    use(forms, KEEP, weight)
    lease = forms.lend([KEEP], [weight])
    forms.written([weight.address])
    forms.settle(lease, True)
    assert use(forms, KEEP, weight) == 0


def test_several_uses_in_one_run_are_one(forms):
    weight = allocate(NBYTES)
    for _ in range(2):
        lease = forms.lend([KEEP] * 3, [weight])
    assert [place & TO_FILL for place in lease.places] == [1, 0, 0]
    fresh = allocate(NBYTES)
    assert forms.lend([KEEP] * 3, [fresh]).places == [0, 0, 0]


def test_panels_left_for_nothing_are_left_less_often(forms):
    weight = allocate(NBYTES)
    filled = 0
    for _ in range(100):  # two runs for each step
        filled += sum(use(forms, KEEP, weight) & TO_FILL for _ in range(2))
        forms.written([weight.address])
    assert filled == 1
    for _ in range(20):  # an evaluation
        last = use(forms, KEEP, weight)
    assert last and not last & TO_FILL


def test_a_run_that_failed_left_nothing(forms):
    weight = allocate(NBYTES)
    use(forms, KEEP, weight)
    assert use(forms, KEEP, weight, ran=False) & TO_FILL
    assert use(forms, KEEP, weight) == 0


def test_panels_go_with_what_they_are_made_of(forms):
    weight, scales = allocate(NBYTES), allocate(64)
    keep = Keep("two", (0, 1), NBYTES)
    for _ in range(3):
        use(forms, keep, weight, scales)
    del scales
    gc.collect()
    assert forms.nbytes() == 0 and not forms.at


def test_memory_that_others_write_to_is_never_packed(forms):
    weight = allocate(NBYTES)
    weight.private = False
    assert [use(forms, KEEP, weight) for _ in range(4)] == [0] * 4


def test_the_budget_holds_and_who_is_in_use_stays(forms):
    weights = [allocate(NBYTES) for _ in range(3)]
    with config.override(packed_weights_mb=2):
        for _ in range(30):
            places = [use(forms, KEEP, weight) for weight in weights]
            assert forms.nbytes() <= 2 << 20
        assert [place != 0 for place in places] == [True, True, False]
        for _ in range(60):
            places = [use(forms, KEEP, weight) for weight in weights[1:]]
        assert all(places), "what is no longer asked for makes room"


def test_without_memory_nothing_is_kept(forms, monkeypatch):
    def no_memory(nbytes):
        raise OutOfMemoryError(nbytes, 0, 0)

    weight = allocate(NBYTES)
    monkeypatch.setattr(packed, "allocate", no_memory)
    assert [use(forms, KEEP, weight) for _ in range(4)] == [0] * 4


def test_clear_gives_all_up(forms):
    weight = allocate(NBYTES)
    for _ in range(3):
        use(forms, KEEP, weight)
    forms.clear()
    assert forms.nbytes() == 0 and use(forms, KEEP, weight) == 0
