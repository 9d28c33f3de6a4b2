"""Each rule of the tile language has a program that breaks it."""

from __future__ import annotations

import pytest

from rushlight.base.dtypes import bfloat16, float32, int64
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.verify import InvalidProgram, verify_program
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var


def build(make, *, size=8, role="out", sizes=(), params=()):
    """A program of one Map over i < 8 whose stores `make(x, y, i)` gives."""
    x, y = ir.Buffer("x", float32, 8), ir.Buffer("y", float32, size, role)
    i = ir.Axis("i", 8)
    made = make(x, y, i)
    body = made if isinstance(made, tuple) else (ir.Map((i,), (made,)),)
    return ir.Program("p", (x, y), params, sizes, (ir.Grid((), body),))


def copy(x, y, i):
    return ir.Store(y, i.var, s.load(x, i.var))


def test_a_copy_is_well_formed() -> None:
    verify_program(build(copy))


def test_symbolic_sizes_are_well_formed() -> None:
    t = Var("T", 1)
    x, y = ir.Buffer("x", float32, t), ir.Buffer("y", float32, t, "out")
    i = ir.Axis("i", t)
    program = ir.Program("p", (x, y), (), (t,), (ir.Grid((i,), (ir.Map((), (copy(x, y, i),)),)),))
    verify_program(program)


@pytest.mark.parametrize("first, room", [(None, 8), (3, 3), (3, 5)])
def test_a_sort_stores_as_many_positions_as_it_says(first, room) -> None:
    verify_program(sorting(first, room))


@pytest.mark.parametrize("first, room", [(None, 7), (3, 2)])
def test_a_sort_that_stores_more_than_there_is_room_for(first, room) -> None:
    with pytest.raises(InvalidProgram, match="reaches"):
        verify_program(sorting(first, room))


def sorting(first: int | None, room: int) -> ir.Program:
    x, y = ir.Buffer("x", float32, 8), ir.Buffer("y", int64, room, "out")
    i = ir.Axis("i", 8)
    statement = ir.Sort(i, s.load(x, i.var), False, y, i.var, first)
    return ir.Program("p", (x, y), (), (), (ir.Grid((), (statement,)),))


LOCAL = ir.Local("t", float32, (8,))
BAD = {
    "neither a size": lambda x, y, i: ir.Store(y, Var("k", 0, 7, "axis"), s.load(x, 0)),
    "is not one of the program's": lambda x, y, i: ir.Store(
        y, i.var, s.load(ir.Buffer("z", float32, 8), i.var)
    ),
    "which is an input": lambda x, y, i: ir.Store(x, i.var, s.load(x, i.var)),
    "stores int64 into y": lambda x, y, i: ir.Store(y, i.var, s.index(i.var)),
    "mask is float32": lambda x, y, i: ir.Store(y, i.var, s.load(x, i.var), s.load(x, i.var)),
    "reaches 8": lambda x, y, i: ir.Store(y, i.var + 1, s.load(x, i.var)),
    "reaches -1": lambda x, y, i: ir.Store(y, i.var - 1, s.load(x, i.var)),
    "outside of y": lambda x, y, i: ir.Store(y, 9, s.load(x, 0)),
    "math op 'exp' is left": lambda x, y, i: ir.Store(y, i.var, s.exp(s.load(x, i.var))),
    "unknown scalar op": lambda x, y, i: ir.Store(y, 0, s.make("nope", (), float32)),
    "not declared": lambda x, y, i: ir.Store(y, i.var, s.param("lr", float32)),
    "acc is only there": lambda x, y, i: ir.Store(y, i.var, s.acc(float32)),
    "before anything is stored": lambda x, y, i: ir.Store(y, i.var, s.local(LOCAL, i.var)),
    "arithmetic is on float32": lambda x, y, i: ir.Store(
        y, 0, s.cast(s.neg(s.const(1, bfloat16)), float32)
    ),
    "different dtypes": lambda x, y, i: ir.Store(
        y, 0, s.make("add", (s.load(x, 0), s.const(1, int64)), float32)
    ),
    "not defined on float32": lambda x, y, i: ir.Store(
        y, 0, s.make("shl", (s.load(x, 0), s.load(x, 0)), float32)
    ),
    "hides an outer": lambda x, y, i: (
        ir.Loop(ir.Axis("i", 2), (ir.Map((i,), (copy(x, y, i),)),)),
    ),
    "kind 'mean'": lambda x, y, i: (
        ir.Reduce((), (i,), (ir.ReduceItem("mean", s.load(x, i.var), y, 0),)),
    ),
}


@pytest.mark.parametrize("message", list(BAD))
def test_a_broken_rule_is_named(message: str) -> None:
    with pytest.raises(InvalidProgram, match=message) as caught:
        verify_program(build(BAD[message]))
    assert "grid 0, statement 0" in str(caught.value)


def test_math_ops_are_allowed_before_expansion() -> None:
    verify_program(build(BAD["math op 'exp' is left"]), expanded=False)


def test_names_are_unique() -> None:
    t = Var("T", 1)
    with pytest.raises(InvalidProgram, match="two sizes are called 'T'"):
        verify_program(build(copy, sizes=(t, t)))


def test_a_tile_stored_before_is_fine() -> None:
    def body(x, y, i):
        first = ir.Map((i,), (ir.Store(LOCAL, i.var, s.load(x, i.var)),))
        return first, ir.Map((i,), (ir.Store(y, i.var, s.local(LOCAL, i.var)),))

    verify_program(build(body))
