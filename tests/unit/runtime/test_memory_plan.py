"""The memory plan: live buffers never overlap, and the arena is near the lower bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.runtime.memory_plan import ALIGN, Lifetime, plan_memory

lifetimes = st.lists(
    st.builds(
        lambda size, first, length: Lifetime(size, first, first + length),
        st.integers(0, 1000),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=25,
)


def lower_bound(lives):
    """The largest sum of aligned sizes alive in one region."""
    sums: dict[int, int] = {}
    for life in lives:
        for region in range(life.first, life.last + 1):
            padded = -(-life.size_bytes // ALIGN) * ALIGN
            sums[region] = sums.get(region, 0) + padded
    return max(sums.values(), default=0)


@settings(max_examples=300, deadline=None)
@given(lifetimes)
def test_live_buffers_never_overlap(lives):
    plan = plan_memory(lives)
    assert len(plan.offsets) == len(lives)
    for i, (a, at) in enumerate(zip(lives, plan.offsets, strict=True)):
        assert at % ALIGN == 0
        assert at + a.size_bytes <= plan.arena_bytes or a.size_bytes == 0
        for j in range(i):
            b, other = lives[j], plan.offsets[j]
            together = a.first <= b.last and b.first <= a.last
            apart = at + a.size_bytes <= other or other + b.size_bytes <= at
            assert not together or apart or 0 in (a.size_bytes, b.size_bytes)


@settings(max_examples=100, deadline=None)
@given(lifetimes)
def test_arena_is_at_least_the_bound_and_repeats(lives):
    plan, bound = plan_memory(lives), lower_bound(lives)
    assert bound <= plan.arena_bytes <= max(2 * bound, ALIGN)
    assert plan == plan_memory(lives)


def network(layers: int) -> list[Lifetime]:
    """Forward activations kept for backward, and short-lived temps in between."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([64, 4096, 100_000, 1 << 20], layers)
    kept = [Lifetime(int(s), i, 2 * layers - i) for i, s in enumerate(sizes)]
    temps = [Lifetime(int(s), layers + i, layers + i + 1) for i, s in enumerate(sizes)]
    return kept + temps


def test_large_network_is_near_the_bound():
    lives = network(600)
    assert plan_memory(lives).arena_bytes <= 1.05 * lower_bound(lives)


def test_bad_lifetime_is_refused():
    with pytest.raises(ValueError, match="buffer 0"):
        plan_memory([Lifetime(1, 3, 2)])
    assert plan_memory([]).arena_bytes == 0


def test_large_buffers_do_not_begin_at_the_same_place_of_a_cache():
    plan = plan_memory([Lifetime(1 << 19, 0, 1)] * 6)
    assert len({offset % 4096 for offset in plan.offsets}) == 6
