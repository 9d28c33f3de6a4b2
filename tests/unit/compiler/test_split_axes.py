"""Axes are cut where indices divide them, but what is written side by side stays long."""

from __future__ import annotations

import pytest

from rushlight.base.dtypes import float32
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Map, Store
from rushlight.compiler.tile.split import split_axes
from rushlight.ir.scalar import load
from rushlight.ir.symint import floordiv, mod


def copied(extent: int, step: int, stride: int) -> Grid:
    """y[stride * i] = x[i // step] + x[i % step]"""
    axis = Axis("i", extent)
    x, y = Buffer("x", float32, extent), Buffer("y", float32, extent * stride, "out")
    value = load(x, floordiv(axis.var, step)) + load(x, mod(axis.var, step))
    return Grid((), (Map((axis,), (Store(y, stride * axis.var, value),)),))


@pytest.mark.parametrize(
    ("extent", "step", "stride", "extents"),
    [
        (384, 32, 1, [12, 32]),
        (384, 2, 1, [384]),  # rows of two leave a vector nothing to run along
        (384, 2, 3, [192, 2]),  # nothing lies side by side
        (6, 2, 1, [3, 2]),  # short as it is
        (385, 32, 1, [385]),  # does not divide
    ],
)
def test_cuts(extent, step, stride, extents):
    (statement,) = split_axes(copied(extent, step, stride)).body
    assert [axis.extent for axis in statement.axes] == extents
