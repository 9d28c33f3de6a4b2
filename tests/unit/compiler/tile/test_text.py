"""Text of tile programs: round trips, and what the key does and does not see."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends import interp
from rushlight.base.dtypes import bfloat16, bool_, float32, int64
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.tile import ir
from rushlight.compiler.tile.text import structural_key, to_text
from rushlight.compiler.tile.text_parse import ParseError, parse_program
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir import scalar as s
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import minimum


def softmax(axis="", tile="", low=1, factor=1.0, name="softmax"):
    """Every name that a builder counts up can be changed."""
    t = Var("T", low)
    x, y = ir.Buffer("x", float32, 3 * t), ir.Buffer("y", float32, 3 * t, "out")
    row, i, k = ir.Axis(f"row{axis}", 3), ir.Axis(f"i{axis}", t), ir.Axis(f"k{axis}", t)
    j = ir.Axis(f"j{axis}", t)
    top, total = ir.Local(f"top{tile}", float32, (1,)), ir.Local(f"sum{tile}", float32, (1,))
    e = ir.Local(f"e{tile}", float32, (t,))
    shifted = s.load(x, row.var * t + k.var) - s.local(top, 0)
    scaled = s.local(e, k.var) / s.local(total, 0) * factor
    body = (
        ir.Reduce((), (i,), (ir.ReduceItem("max", s.load(x, row.var * t + i.var), top, 0),)),
        ir.Map((k,), (ir.Store(e, k.var, s.exp(shifted)),)),
        ir.Reduce((), (j,), (ir.ReduceItem("sum", s.local(e, j.var), total, 0),)),
        ir.Map((k,), (ir.Store(y, row.var * t + k.var, scaled),)),
    )
    return ir.Program(name, (x, y), (), (t,), (ir.Grid((row,), body),), ("", "gather at a.py:3"))


def everything() -> ir.Program:
    """All statements, all leaves, names that clash with printed ones."""
    i0, off = Var("i0", 1), Var("off", 0, None, "offset")
    x = ir.Buffer("t1", bfloat16, 8 * i0 + off)
    at, y = ir.Buffer("at", int64, 8), ir.Buffer("y", float32, 8, "inout")
    order, scratch = ir.Buffer("order", int64, 8, "out"), ir.Buffer("w", float32, 8, "scratch")
    a, b, c, g = ir.Axis("a", 8), ir.Axis("b", 4), ir.Axis("c", 8), ir.Axis("g", 2)
    tile = ir.Local("x", float32, (2, 4))
    index = s.check_index(s.load(at, a.var), 8, 3)
    inside = s.lt(s.index(a.var % 3 + minimum(a.var, off)), 4) & s.const(True, bool_)
    loaded = s.load(x, s.as_index(index, 0, 7) * 2 + a.var // 3, inside, s.const(-0.0, bfloat16))
    value = s.fma(s.cast(loaded, float32), s.param("lr", float32), float("-inf"))
    split = ir.Axis("split", minimum(4, 8 - g.var * 4))
    body = (
        ir.Map((a,), (ir.Store(y, a.var, value, inside), ir.Store(y, a.var, -value))),
        ir.Reduce(
            (split,),
            (ir.Axis("r", 2), ir.Axis("q", 3)),
            (
                ir.ReduceItem("sum", value_at(y, split), tile, split.var, s.acc(float32) * 0.5),
                ir.ReduceItem("argmax", value_at(y, split), order, g.var * 4 + split.var),
            ),
            "tree",
        ),
        ir.Loop(b, (ir.Scan((), c, "max", s.load(y, c.var) + 1.0, scratch, c.var),)),
        ir.Sort(c, s.load(y, c.var), True, order, c.var),
        ir.Sort(c, s.load(y, c.var), False, order, c.var, 2),
        ir.Map((), (ir.Store(y, 7, s.local(tile, 5)),)),
    )
    dot = ir.DotGrid(
        (g,), ir.Axis("m", 2), ir.Axis("n", 2), b, s.load(y, g.var + b.var), s.load(scratch, b.var),
        float32, (ir.Store(y, g.var, s.select(s.gt(s.acc(float32), 0.0), s.acc(float32), 1e-30)),),
    )  # fmt: skip
    row = s.check_index(s.load(at, a.var), 8, 4)
    scatter = ir.ScatterGrid(a, ir.Axis("w", 1), 8, row, s.load(scratch, a.var), "sum", y)
    params = (ir.Param("lr", float32),)
    grids = (ir.Grid((g,), body), dot, scatter)
    return ir.Program("every thing", (x, at, y, order, scratch), params, (i0, off), grids)


def value_at(buffer, axis):
    return s.load(buffer, axis.var)


@pytest.mark.parametrize("build", [softmax, everything, lambda: expand(softmax())])
def test_text_round_trips(build) -> None:
    program = build()
    text = to_text(program)
    again = parse_program(text)
    assert to_text(again) == text
    verify_program(again, expanded=False)
    assert (again.name, again.sites) == (program.name, program.sites)
    assert [b.role for b in again.buffers] == [b.role for b in program.buffers]
    assert [(v.name, v.kind, v.atom.lo) for v in again.sizes] == [
        (v.name, v.kind, v.atom.lo) for v in program.sizes
    ]


def test_a_parsed_program_computes_the_same() -> None:
    program = expand(softmax())
    x = np.random.default_rng(0).standard_normal(15).astype(np.float32)
    results = []
    for each in (program, parse_program(to_text(program))):
        (executable,) = interp.build([each], interp.find())
        results.append(np.empty(15, np.float32))
        executable.run((x, results[-1]), {"T": 5})
    assert results[0].tobytes() == results[1].tobytes()


def test_names_of_axes_and_tiles_leave_no_trace() -> None:
    assert to_text(softmax("_7", "_9")) == to_text(softmax())
    # Names that sort otherwise must not reorder terms either.
    assert structural_key(softmax("zz")) == structural_key(softmax("A"))


def test_sites_are_no_part_of_the_key() -> None:
    program = softmax()
    other = ir.Program(*(getattr(program, f) for f in "name buffers params sizes grids".split()))
    assert to_text(other) != to_text(program)
    assert structural_key(other) == structural_key(program)


@pytest.mark.parametrize("change", [{"low": 2}, {"factor": 2.0}, {"factor": -1.0}, {"name": "p"}])
def test_what_matters_is_in_the_key(change) -> None:
    assert structural_key(softmax(**change)) != structural_key(softmax())


def test_signed_zeros_differ() -> None:
    assert structural_key(softmax(factor=0.0)) != structural_key(softmax(factor=-0.0))


def test_the_example_in_the_docstring_parses() -> None:
    text = to_text(parse_program(EXAMPLE))
    assert text == EXAMPLE


EXAMPLE = """\
program scale
size T in 1..?
param lr: float32
buffer x: float32[T] in
buffer y: float32[T] out
grid i0:T {
  map {
    t0 = x[i0]
    t1 = mul(t0, $lr:float32)
    y[i0] = t1
  }
}
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [("    t0 = z[i0]", "unknown buffer or tile 'z'"), ("    t0 = x[k]", "unknown variable 'k'")],
)
def test_parse_errors_name_the_line(line: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_program(EXAMPLE.replace("    t0 = x[i0]", line))
    assert "in line 8" in str(caught.value)
