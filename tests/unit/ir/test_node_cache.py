"""Calls that are answered from what the rules said before give the nodes that the rules give."""

import pytest

from rushlight import ops
from rushlight.base.dtypes import bool_, float32, float64, int64
from rushlight.ir.node import buffer_node, const_node, meta_of, node_of, scalar_node


def leaf(*shape, dtype=float32):
    return buffer_node(None, shape, dtype)


def by_rules(op, *args):
    """As `OpDef.node`, without what is known."""
    call = op.bind(*args)
    return node_of(meta_of(op, call.attrs, op.shape(call), op.dtype(call)), call.src)


CALLS = {
    "two": lambda: (ops.add, (leaf(3), leaf(3))),
    "broadcast": lambda: (ops.mul, (leaf(2, 3), leaf(3))),
    "int": lambda: (ops.mul, (leaf(3), 2)),
    "float": lambda: (ops.mul, (leaf(3), 2.5)),
    "bool": lambda: (ops.mul, (leaf(3), True)),
    "first": lambda: (ops.sub, (1.5, leaf(3, dtype=float64))),
    "const": lambda: (ops.add, (leaf(3), const_node(4, int64))),
    "ints": lambda: (ops.add, (leaf(3, dtype=int64), 7)),
    "where": lambda: (ops.where, (leaf(3, dtype=bool_), leaf(3), 0.5)),
    "dims": lambda: (ops.permute, (leaf(2, 3), (-1, 0))),
    "list": lambda: (ops.permute, (leaf(2, 3), [1, 0])),
    "slice": lambda: (ops.slice_, (leaf(8), (2,), (3,), (1,))),
    "cast": lambda: (ops.cast, (leaf(3), float64)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_known_call_gives_the_node_of_the_rules(name):
    op, args = CALLS[name]()
    wanted = by_rules(op, *args)
    assert op.node(*args) is wanted  # makes it known, or knows it
    assert op.node(*args) is wanted
    op, others = CALLS[name]()  # other leaves of the same kind
    assert op.node(*others) is by_rules(op, *others)


def test_numbers_are_not_kept_and_their_kinds_are_told_apart():
    x = leaf(3)
    values = [ops.mul.node(x, n).src[1].attrs[0] for n in (1, 2.0, 3, True)]
    assert values == [1.0, 2.0, 3.0, 1.0]
    whole = leaf(3, dtype=int64)
    assert ops.mul.node(whole, 2).src[1].dtype is int64
    scalar = scalar_node(2.5, float64)
    assert ops.mul.node(x, scalar).src[1].dtype is float32
    again = scalar_node(3.5, float64)
    assert ops.mul.node(x, again).src[1].attrs == (3.5,)


def test_a_refused_call_is_refused_again():
    for _ in range(2):
        with pytest.raises(RuntimeError):
            ops.permute.node(leaf(2, 3), (0, 0))
        with pytest.raises(IndexError):
            ops.permute.node(leaf(2, 3), (0, 5))
