"""Graphs as text and back, for every kind of attribute."""

from __future__ import annotations

import pytest

from rushlight import ops
from rushlight.base.dtypes import bfloat16, float32
from rushlight.ir.node import buffer_node, const_node, scalar_node, topological
from rushlight.ir.symint import Var
from rushlight.ir.text import ParseError, parse_graph, to_text
from rushlight.ir.verify import verify_graph


def example():
    t = Var("T", 1)
    x = buffer_node(None, (8, t), float32)
    scaled = ops.mul(x, scalar_node(0.5, float32))
    halved = ops.reshape(ops.exp(scaled), (2, 4, t))
    total = ops.reduce_sum(halved, (1, 2))
    low = ops.cast(ops.add(total, const_node(float("-inf"), float32)), bfloat16)
    return [low, ops.exp(scaled)]


TEXT = """\
size T in 1..?
%0 = buffer : f32[8, T]
%1 = scalar 0.5 : f32[]
%2 = mul(%0, %1) : f32[8, T]
%3 = exp(%2) : f32[8, T]
%4 = reshape(%3, shape=(2, 4, {T},)) : f32[2, 4, T]
%5 = reduce_sum(%4, dims=(1, 2,)) : f32[2]
%6 = const -inf : f32[]
%7 = add(%5, %6) : f32[2]
%8 = cast(%7, dtype=torch.bfloat16) : bf16[2]
return %8, %3
"""


def test_text_is_as_documented() -> None:
    text = to_text(example())
    assert text == TEXT


def test_text_round_trips() -> None:
    roots = parse_graph(TEXT)
    assert to_text(roots) == TEXT
    verify_graph(roots)


def test_parsed_nodes_are_the_same_objects_over_the_same_buffers() -> None:
    roots = example()
    buffers = [n for n in topological(roots) if n.leaf == "buffer"]
    # Scalars have identity too, so only what does not read one can be the same.
    x = buffers[0]
    root = ops.exp(ops.mul(x, const_node(2.0, float32)))
    assert parse_graph(to_text([root]), [x]) == [root]


def test_equal_graphs_print_equally() -> None:
    assert to_text(example()) == to_text(example())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("exp(%2)", "nope(%2)", "there is no op 'nope' in line 5"),
        ("exp(%2)", "exp(%9)", "unknown node '%9' in line 5"),
        (": f32[8, T]\n%1", ": f31[8, T]\n%1", "unknown dtype 'f31'"),
        ("dims=(1, 2,)", "dim=(1, 2,)", "reduce_sum has no attribute 'dim'"),
        ("f32[8, T]\n%3", "f32[8, K]\n%3", "unknown variable 'K'"),
    ],
)
def test_parse_errors(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_graph(TEXT.replace(old, new))
