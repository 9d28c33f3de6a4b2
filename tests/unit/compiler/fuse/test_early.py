"""Values that are computed with the product that they are made of, and what is kept for later."""

import pytest
from compile_parts import gradients, groups_of, leaf, points_of

from rushlight import ops
from rushlight.base.dtypes import bfloat16, float32
from rushlight.compiler.fuse import materialize


def early(*roots):
    points = points_of(*roots)
    return [node for node, reason in points.reasons.items() if reason == "early"]


def trained(activation, rows=64, width=128, dtype=None):
    """Results and gradients of activation(x @ w + b) @ v."""
    kind = {} if dtype is None else {"dtype": dtype}
    x, w, b, v = (
        leaf(*shape, **kind) for shape in ((rows, 32), (32, width), (width,), (width, 32))
    )
    out = ops.matmul(activation(ops.add(ops.matmul(x, w), b)), v)
    return [out, *gradients(out, [w, b, v])]


def kept_by_first_product(roots):
    """The values of the first product's kernel that other kernels read."""
    groups = groups_of(*roots)
    first = next(group for group in groups if group.kind == "dot")
    return [m for m in first.members if any(m in g.reads for g in groups if g is not first)]


def bytes_kept(roots):
    return sum(node.numel() * node.dtype.itemsize for node in kept_by_first_product(roots))


@pytest.mark.parametrize("name", ["gelu", "silu", "mish"])
def test_a_slope_takes_the_place_of_what_it_is_made_of(name):
    roots = trained(getattr(ops, name))
    (slope,) = early(*roots)
    assert slope.shape == (64, 128)
    # Of the first product others read what the activation gives, and its slope.
    assert len(kept_by_first_product(roots)) == 2


def test_no_place_of_its_own_where_it_would_spare_none():
    assert not early(*trained(ops.relu))  # the slope is told from the result
    assert not early(*trained(ops.exp))  # the slope is the result
    assert not early(*trained(ops.softplus))  # for one place another one


def test_what_is_a_result_is_kept_anyway():
    """The inputs of the slope are asked for themselves, so nothing would be spared."""
    x, w = leaf(64, 32), leaf(32, 128)
    inner = ops.matmul(x, w)
    roots = [inner, ops.erf(inner), ops.gelu(inner), *gradients(ops.gelu(inner), [w])]
    assert not early(*roots)


@pytest.mark.parametrize("shape", [(128,), (64, 128)])
def test_a_large_operand_of_its_own_is_not_read_early(shape):
    """A value made of the product and of another matrix waits for its place."""
    x, w, other = leaf(64, 32), leaf(32, 128), leaf(*shape)
    inner = ops.matmul(x, w)
    bent = ops.erf(inner)
    later = ops.mul(leaf(64, 128), ops.mul(bent, ops.mul(inner, other)))
    found = early(ops.mul(inner, bent), ops.reduce_sum(later, (0,)))
    assert len(found) == (len(shape) == 1)


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("name", ["gelu", "silu", "mish"])
def test_fewer_bytes_are_kept(name, dtype, monkeypatch):
    with_it = bytes_kept(trained(getattr(ops, name), dtype=dtype))
    monkeypatch.setattr(materialize, "early_points", lambda *_: [])
    assert with_it < bytes_kept(trained(getattr(ops, name), dtype=dtype))
