"""Numbers that are known become numbers; everything else stays."""

import pytest

from rushlight.base.dtypes import bool_, float32, int8, int64, uint8
from rushlight.compiler.tile.ir import Buffer
from rushlight.compiler.tile.known import with_known
from rushlight.ir import scalar as s

X = s.load(Buffer("x", uint8, 8), 3)


@pytest.mark.parametrize(
    "value, expected",
    [
        (s.index(4), s.const(4, int64)),
        (s.cast(s.index(300), uint8), s.const(44, uint8)),
        (s.cast(s.index(200), int8), s.const(-56, int8)),
        (s.cast(s.index(2), bool_), s.const(True, bool_)),
        (s.lt(s.index(4), s.const(8, int64)), s.const(True, bool_)),
        (s.ge(s.index(4), s.const(8, int64)), s.const(False, bool_)),
        (s.select(s.eq(s.index(1), s.index(1)), X, s.const(0, uint8)), X),
        (s.select(s.ne(s.index(1), s.index(1)), X, s.const(7, uint8)), s.const(7, uint8)),
    ],
)
def test_known(value, expected):
    assert with_known(value) is expected


@pytest.mark.parametrize(
    "value",
    [
        X,
        s.lt(X, s.const(1, uint8)),
        s.cast(X, float32),
        s.const(1.5, float32) + s.const(2.5, float32),
    ],
)
def test_the_rest_stays(value):
    assert with_known(value) is value
