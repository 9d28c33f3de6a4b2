"""Scans of rows that lie as they are read: some go along together, each in its own order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from llvm_run import aligned, run
from llvm_targets import caps_of, each_target

from rushlight.backends.interp.folds import scan_rows
from rushlight.backends.llvm import scan_turned, streaming
from rushlight.backends.llvm.build import build, lower
from rushlight.base.dtypes import DType, float32, float64, int32, int64, uint8
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Program, Scan
from rushlight.ir.scalar import load
from rushlight.ir.symint import Expr, Var

ROWS = (1, 3, 4, 5, 16, 19, 34)


def rows_program(
    kind: str, dtype: DType, rows: int | Var, length: int | Var, step: int = 1, role: str = "in"
) -> Program:
    """y[r, i] = fold of x[r, 0], x[r, step], ... x[r, i * step]; where step is -1, from the end."""
    row, over = Axis("row", rows), Axis("over", length)
    wide = abs(step) * length
    x = Buffer("x", dtype, rows * wide, role)
    y = Buffer("y", int64 if kind.startswith("arg") else dtype, rows * length, "out")
    start = length - 1 if step < 0 else 0
    at = row.var * wide + start + over.var * step
    statement = Scan((), over, kind, load(x, at), y, row.var * length + over.var)
    sizes = tuple(n for n in (rows, length) if isinstance(n, Var))
    return Program("scan", (x, y), (), sizes, (Grid((row,), (statement,)),))


def values_of(dtype: DType, rows: int, length: int) -> np.ndarray:
    rng = np.random.default_rng(rows * length)
    if not dtype.is_floating_point:
        return rng.integers(0, 100, (rows, length)).astype(dtype.np)
    values = rng.standard_normal((rows, length)).astype(dtype.np)
    values[0, 0] = -0.0
    values[rows // 2, length // 2] = np.nan
    return values


def expected(kind: str, values: np.ndarray) -> np.ndarray:
    rows, length = values.shape
    return scan_rows(kind, values.ravel(), np.full(rows, length)).reshape(rows, length)


def check(executable, values: np.ndarray, want: np.ndarray, sizes=None) -> None:
    """In one part and in several, as threads take them; nothing is written beside the result."""
    for split in (1, 3):
        memory = aligned(want.nbytes + 256)
        before = memory.copy()
        result = memory[: want.nbytes].view(want.dtype).reshape(want.shape)
        assert run(executable, [values, memory], sizes, split=split) == 0
        assert result.tobytes() == want.tobytes()
        assert (memory[want.nbytes :] == before[want.nbytes :]).all()


@pytest.fixture
def _always_turned(monkeypatch):
    monkeypatch.setattr(scan_turned, "LEAST_VECTORS", 0)
    monkeypatch.setattr(scan_turned, "ROW_BYTES", 1)


KINDS = [
    ("sum", float32), ("running_sum", float32), ("running_sum", float64), ("prod", float32),
    ("max", float32), ("min", int32), ("sum", uint8), ("sum", int64), ("argmax", float32),
    ("argmin", int64),
]  # fmt: skip


@each_target
@pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=str)
@pytest.mark.usefixtures("_always_turned")
def test_blocks_of_rows_are_turned(target, kind, dtype):
    shapes = [(21, n) for n in (1, 15, 16, 150, 512, 1100)] + [(n, 531) for n in ROWS]
    programs = [rows_program(kind, dtype, *shape) for shape in shapes]
    built = build(programs, caps_of(target))
    for (rows, length), executable in zip(shapes, built, strict=True):
        values = values_of(dtype, rows, length)
        check(executable, values, expected(kind, values))


@each_target
@pytest.mark.parametrize("kind", ["sum", "running_sum", "max", "argmin"])
def test_sizes_may_be_known_at_the_run_alone(target, kind):
    """Short rows, few rows, and rows at any place in a line go as chains."""
    rows, length = Var("rows", 0), Var("length", 0)
    (executable,) = build([rows_program(kind, float32, rows, length)], caps_of(target))
    for shape in itertools.product(ROWS, (1, 16, 127, 128, 131, 516, 1100)):
        values = values_of(float32, *shape)
        sizes = dict(zip(("rows", "length"), shape, strict=True))
        check(executable, values, expected(kind, values), sizes)
    assert run(executable, [np.zeros(1, np.float32)] * 2, {"rows": 0, "length": 5}) == 0
    assert run(executable, [np.zeros(1, np.float32)] * 2, {"rows": 5, "length": 0}) == 0


@each_target
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("length", [33, 256])
def test_each_row_is_one_chain(target, rows, length):
    (executable,) = build([rows_program("sum", float32, rows, length)], caps_of(target))
    values = np.random.default_rng(rows).standard_normal((rows, length)).astype(np.float32)
    check(executable, values, np.cumsum(values, axis=1, dtype=np.float32))


@each_target
@pytest.mark.parametrize("step", [2, 3, -1])
@pytest.mark.usefixtures("_always_turned")
def test_rows_may_be_read_in_steps(target, step):
    (executable,) = build([rows_program("running_sum", float32, 20, 600, step)], caps_of(target))
    values = values_of(float32, 20, 600 * abs(step))
    read = values[:, ::-1] if step < 0 else values[:, ::step]
    check(executable, values, expected("running_sum", np.ascontiguousarray(read)))


@each_target
@pytest.mark.usefixtures("_always_turned")
def test_a_result_may_lie_where_the_values_do(target):
    (executable,) = build([rows_program("running_sum", float32, 21, 530)], caps_of(target))
    values = values_of(float32, 21, 530)
    want = expected("running_sum", values)
    assert run(executable, [values, values]) == 0
    assert values.tobytes() == want.tobytes()


@each_target
@pytest.mark.parametrize("offset", [0, 4, 32])
def test_large_results_go_past_the_caches(target, offset, monkeypatch):
    monkeypatch.setattr(streaming, "STREAM_BYTES", 1)
    program = rows_program("running_sum", float32, 37, 528)
    assert "!nontemporal" in str(lower([program], caps_of(target))[0])
    odd = rows_program("running_sum", float32, 37, 531)
    assert "!nontemporal" not in str(lower([odd], caps_of(target))[0])
    (executable,) = build([program], caps_of(target))
    values = values_of(float32, 37, 528)
    want = expected("running_sum", values)
    result = aligned(want.nbytes + 64)[offset : offset + want.nbytes].view(np.float32)
    assert run(executable, [values, result], split=2) == 0
    assert result.tobytes() == want.tobytes()


@each_target
def test_columns_carry_what_stands_before(target):
    length, columns = 1100, 70
    over, column = Axis("over", length), Axis("column", columns)
    x = Buffer("x", float32, length * columns)
    y = Buffer("y", float32, length * columns, "out")
    at: Expr = over.var * columns + column.var
    statement = Scan((), over, "running_sum", load(x, at), y, at)
    program = Program("scan", (x, y), (), (), (Grid((column,), (statement,)),))
    (executable,) = build([program], caps_of(target))
    values = values_of(float32, length, columns)
    want = expected("running_sum", np.ascontiguousarray(values.T)).T
    check(executable, values, np.ascontiguousarray(want))
