"""What an index is in each lane: taken apart, it gives what the whole index gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.backends.llvm.linear import split_by_lane, steps_of
from rushlight.compiler.tile.ir import Axis
from rushlight.ir.symint import Expr, Var, floordiv, make_polynomial, mod
from rushlight.ir.symint_walk import evaluate, variables

EXTENT = 1 << 12
AXIS = Axis("d", EXTENT)
SIZE = Var("s", 1)


@st.composite
def indices(draw):
    """Sums of divisions and remainders of the axis, also nested, with a size beside them."""
    total = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 4))):
        part = AXIS.var
        for _ in range(draw(st.integers(0, 2))):
            by = draw(st.sampled_from([2, 3, 4, 7, 8, 16, 32, 64]))
            part = draw(st.sampled_from([floordiv, mod]))(part, by)
        total = total + part * draw(st.sampled_from([1, 2, 9, 64, SIZE]))
    return total


def depends(atom) -> bool:
    return "d" in variables(make_polynomial({(atom,): 1}, 0))


@settings(deadline=None)
@given(indices(), st.sampled_from([2, 4, 8, 16]), st.integers(0, 200), st.booleans())
def test_parts_add_up_to_the_index(index, lanes, number, aligned):
    if not isinstance(index, Expr):
        return
    first = number * lanes if aligned else number
    parts = split_by_lane(index, "d", lanes, aligned, depends)

    def value(expr, at):
        return evaluate(expr, {"d": at, "s": 5}) if isinstance(expr, Expr) else expr

    base = value(make_polynomial(dict(parts.base), index.const), first)
    stride = value(make_polynomial(dict(parts.stride), 0), first)
    for lane in range(lanes):
        rest = value(make_polynomial(dict(parts.rest), 0), first + lane)
        pattern = parts.pattern[lane] if parts.pattern else 0
        assert base + lane * stride + pattern + rest == value(index, first + lane)


@pytest.mark.parametrize(
    ("index", "steps"),
    [
        (floordiv(AXIS.var, 32), [0, 0, 0, 0, 0, 0, 0, 0]),
        (mod(AXIS.var, 32), [0, 1, 2, 3, 4, 5, 6, 7]),
        (floordiv(AXIS.var, 4), [0, 0, 0, 0, 1, 1, 1, 1]),
        (mod(AXIS.var, 2), [0, 1, 0, 1, 0, 1, 0, 1]),
        (floordiv(mod(AXIS.var, 16), 4), [0, 0, 0, 0, 1, 1, 1, 1]),
        (mod(AXIS.var, 12), None),
        (floordiv(mod(AXIS.var, 12), 4), None),
    ],
)
def test_steps_of_an_aligned_vector(index, steps):
    ((atom,), _), *_ = index.terms
    found = steps_of(atom, "d", 8, True)
    assert (None if found is None else list(found)) == steps
    assert steps_of(atom, "d", 8, False) is None


def test_patterns_that_add_up_to_steps_are_steps():
    """4 * (d // 4) + d % 4, which a view of a small image can leave."""
    index = make_polynomial(
        {
            floordiv(AXIS.var, 4).terms[0][0]: 4,
            mod(AXIS.var, 4).terms[0][0]: 1,
        },
        0,
    )
    parts = split_by_lane(index, "d", 8, True, depends)
    assert not parts.pattern and not parts.rest
    assert parts.stride == {(): 1}
