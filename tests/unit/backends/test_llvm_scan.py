"""Scans of rows that lie as they are read: some go along together, each in its own order."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends.llvm.build import build
from rushlight.backends.llvm.caps import find_caps
from rushlight.base.dtypes import float32
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Program, Scan
from rushlight.ir.scalar import load
from rushlight.ir.symint import Var
from tests.unit.backends.llvm_run import run


@pytest.mark.parametrize("features", ["", "-avx512f", "-avx"])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 11])
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_each_row_is_one_chain(features, rows, is_symbolic):
    count = Var("rows", 0) if is_symbolic else rows
    row, over = Axis("row", count), Axis("over", 33)
    x, y = Buffer("x", float32, count * 33), Buffer("y", float32, count * 33, "out")
    at = row.var * 33 + over.var
    grid = Grid((row,), (Scan((), over, "sum", load(x, at), y, at),))
    sizes = (count,) if is_symbolic else ()
    (executable,) = build([Program("scan", (x, y), (), sizes, (grid,))], find_caps(features, 2))
    values = np.random.default_rng(rows).standard_normal((rows, 33)).astype(np.float32)
    arrays = [values, np.zeros_like(values)]
    assert run(executable, arrays, {"rows": rows} if is_symbolic else None) == 0
    np.testing.assert_array_equal(arrays[1], np.cumsum(values, axis=1, dtype=np.float32))
