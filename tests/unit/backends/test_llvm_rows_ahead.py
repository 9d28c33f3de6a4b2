"""What a statement asks for before it is read: pieces of rows, and rows that are read again."""

from __future__ import annotations

from rushlight.backends.llvm.rows_ahead import rows_ahead
from rushlight.base.dtypes import float32
from rushlight.compiler.tile.ir import Axis, Buffer, Grid, Map, Store
from rushlight.ir.scalar import load


def grid_of(images: int, place: int, times: int = 1, channels: int = 128) -> tuple[Grid, Buffer]:
    """x + 1 for each channel of x[images, channels, place], `times` times."""
    x, y = (Buffer(name, float32, images * channels * place) for name in "xy")
    c, i, p = Axis("c", channels), Axis("i", images), Axis("p", place)
    at = (i.var * channels + c.var) * place + p.var
    body = Map((i, p), (Store(y, at, load(x, at) + 1.0),))
    return Grid((c,), (body,) * times), x


def test_short_pieces_ask_for_some_pieces_later():
    grid, x = grid_of(32, 64)
    assert rows_ahead(grid) == [{x: 8 * 128 * 64}]


def test_pieces_side_by_side_and_long_ones_are_left_to_the_machine():
    assert rows_ahead(grid_of(32, 64, channels=1)[0]) == [{}]
    assert rows_ahead(grid_of(32, 4096)[0]) == [{}]
    assert rows_ahead(grid_of(32, 0)[0]) == [{}]


def test_the_second_reading_asks_for_the_next_row():
    grid, x = grid_of(32, 256, times=3)
    assert rows_ahead(grid) == [{x: 2 * 128 * 256}, {x: 256}, {}]
