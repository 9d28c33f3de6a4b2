"""Which values are kept and which share a kernel, for the graphs that matter."""

from __future__ import annotations

import pytest
from compile_parts import NO_HINTS, gradients, groups_of, leaf, points_of

import rushlight.ops as O
from rushlight.base.dtypes import bfloat16, int64
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.grouping import group_points
from rushlight.ir.node import Node


def kinds(*roots: Node) -> list[str]:
    return [g.kind for g in groups_of(*roots)]


def group_with(groups: list[Group], name: str) -> Group:
    (found,) = [g for g in groups if any(m.name == name for m in g.members)]
    return found


# points ------------------------------------------------------------

x = leaf(64, 64)


def reason(node: Node, *roots: Node) -> str:
    return points_of(*roots).reasons.get(node, "")


def test_roots_and_barriers_are_points() -> None:
    y = O.reduce_sum(x, (1,))
    out = O.exp(y)
    points = points_of(out)
    assert points.reasons == {out: "output", y: "reduce"}
    assert points.users[y] == {out}


def test_long_chains_are_cut() -> None:
    node = x
    for _ in range(400):
        node = O.neg(node)
    reasons = points_of(node).reasons
    assert list(reasons.values()).count("long_chain") == 2


# groups ------------------------------------------------------------


@pytest.mark.parametrize("shape", [(64, 100), (8, 16, 100)])
def test_softmax_is_one_kernel(shape: tuple) -> None:
    assert kinds(O.softmax(leaf(*shape), len(shape) - 1)) == ["rows"]


def test_softmax_over_another_dim_is_one_kernel() -> None:
    assert kinds(O.softmax(leaf(64, 100), 0)) == ["rows"]


def test_softmax_gradient_is_one_kernel() -> None:
    a = leaf(64, 100)
    assert kinds(*gradients(O.softmax(a, 1), [a])) == ["rows"]


def test_layer_norm_is_one_kernel() -> None:
    a, w, b = leaf(64, 100), leaf(100), leaf(100)
    assert kinds(O.layer_norm(a, w, b)) == ["rows"]


def test_layer_norm_gradients_are_two_kernels() -> None:
    """One over rows for the input, one over columns for weight and bias."""
    a, w, b = leaf(64, 100), leaf(100), leaf(100)
    groups = groups_of(*gradients(O.layer_norm(a, w, b), [a, w, b]))
    assert [(g.shape, g.reduced) for g in groups] == [((64, 100), (1,)), ((64, 100), (0,))]


def test_reductions_of_two_inputs_meet_in_one_kernel() -> None:
    a, b = leaf(64, 100), leaf(64, 100)
    out = O.add(O.reduce_sum(a, (1,)), O.reduce_max(b, (1,)))
    assert kinds(out) == ["rows"]
    later = O.softmax(O.mul(b, O.reshape(out, (64, 1))), 1)
    assert kinds(out, later) == ["rows"]


def test_reductions_that_need_each_other_in_memory_are_not_joined() -> None:
    """The second reads the rows of the first in another order."""
    a, b = leaf(64, 100), leaf(64, 100)
    first = O.reduce_sum(a, (1,))
    second = O.reduce_sum(O.mul(b, O.reshape(O.flip(first, (0,)), (64, 1))), (1,))
    groups = groups_of(O.add(first, second))
    assert [g.kind for g in groups] == ["rows", "rows"]


def test_residual_and_norm_are_one_kernel() -> None:
    a, r, w, b = leaf(64, 100), leaf(64, 100), leaf(100), leaf(100)
    total = O.add(a, r)
    groups = groups_of(total, O.layer_norm(total, w, b))
    assert [g.kind for g in groups] == ["rows"]


def test_linear_with_bias_and_gelu_is_one_kernel() -> None:
    a, w, b = leaf(32, 64), leaf(64, 128), leaf(128)
    assert kinds(O.gelu(O.add(O.dot(a, w), b))) == ["dot"]


def test_the_epilogue_goes_through_reshapes() -> None:
    a, w, b = leaf(4, 8, 64), leaf(64, 128), leaf(128)
    flat = O.dot(O.reshape(a, (32, 64)), w)
    out = O.add(O.reshape(flat, (4, 8, 128)), b)
    assert kinds(O.mul(O.tanh(out), leaf(4, 8, 128))) == ["dot"]


def test_a_norm_after_a_contraction_is_a_kernel_of_its_own() -> None:
    a, w = leaf(32, 64), leaf(64, 128)
    assert kinds(O.softmax(O.dot(a, w), 1)) == ["dot", "rows"]


def test_sgd_of_many_parameters_is_a_kernel_per_shape() -> None:
    shapes = [(100,), (100,), (20, 30)]
    roots = [O.sub(leaf(*s), O.mul(leaf(*s), 0.1)) for s in shapes]
    assert kinds(*roots) == ["map"] * 3


def test_values_of_one_input_share_a_kernel() -> None:
    assert kinds(O.add(x, 1.0), O.mul(x, 2.0), O.exp(x)) == ["map"]


def test_a_transposed_reader_is_another_kernel() -> None:
    e = O.exp(x)
    groups = groups_of(e, O.add(O.permute(e, (1, 0)), 1.0))
    assert [g.kind for g in groups] == ["map", "map"]


def test_too_few_rows_are_split_into_chunks() -> None:
    wide = leaf(2, 1 << 16)
    assert kinds(O.reduce_sum(wide, (1,))) == ["split"]
    assert kinds(O.reduce_sum(leaf(64, 4096), (1,))) == ["rows"]


def test_a_cycle_between_groups_is_refused() -> None:
    """e and out fit one kernel by their shapes, but a contraction lies between them."""
    e = O.exp(x)
    out = O.mul(e, O.dot(e, x))
    groups = groups_of(e, out)
    assert group_with(groups, "exp") is not group_with(groups, "mul")
    assert [g.kind for g in groups] == ["map", "dot"]


def test_a_cycle_through_two_groups_is_refused() -> None:
    e = O.exp(x)
    far = O.dot(O.scan_sum(e, 0), leaf(64, 64))
    out = O.add(O.add(e, 1.0), O.reduce_sum(far, (0,)))
    groups = groups_of(e, out)
    order = {m: i for i, g in enumerate(groups) for m in g.members}
    assert order[e] < order[far] < order[out]


def test_groups_run_after_what_they_read() -> None:
    a = leaf(64, 64)
    node, kept = a, []
    for turn in range(6):
        node = O.dot(O.softmax(node, 1), O.permute(node, (1, 0)))
        kept.append(O.add(node, float(turn)))
    groups = groups_of(*kept)
    place = {m: i for i, g in enumerate(groups) for m in g.members}
    for i, group in enumerate(groups):
        for other in groups[i:]:
            assert other is group or not group.before & (1 << other.number)
    assert sorted(place.values()) == sorted(i for i, g in enumerate(groups) for _ in g.members)


def test_pieces_scan_sort_scatter_stand_alone() -> None:
    i = leaf(10, dtype=int64)
    assert kinds(O.cat([x, leaf(3, 64)], 0)) == ["pieces"]
    assert kinds(O.scan_sum(x, 1)) == ["scan"]
    assert kinds(O.argsort_(x, 1, False)) == ["sort"]
    assert kinds(O.scatter_nd(x, leaf(10, 64), [i], "sum")) == ["scatter"]
    assert kinds(O.gather_nd(x, [i])) == ["map"]


def test_a_kernel_has_no_more_buffers_than_the_target_allows() -> None:
    """Updates that read one factor would be one kernel."""
    factor, leaves = leaf(1), [leaf(8) for _ in range(20)]
    roots = [O.add(O.mul(one, factor), 1.0) for one in leaves]
    points = points_of(*roots)
    wide = [g for g in group_points(points, NO_HINTS) if g.kind == "map"]
    narrow = [g for g in group_points(points, NO_HINTS, most_buffers=9) if g.kind == "map"]
    assert len(narrow) > len(wide)
    for group in narrow:
        assert len(group.reads) + len(group.members) <= 9
    assert {m for g in narrow for m in g.members} == {m for g in wide for m in g.members}


def test_of_a_norm_before_a_product_the_narrow_value_is_kept():
    """The product widens it as it reads: a float32 copy would be twice the bytes."""
    shapes = (8, 64), (8, 64), (16, 64), (16,)
    x, r, w, b = (leaf(*shape, dtype=bfloat16) for shape in shapes)
    normal = O.layer_norm(O.add(x, r), None, None, 1, 1e-5)
    points = points_of(O.linear(normal, w, b))
    kept = {node.dtype for node, reason in points.reasons.items() if reason == "operand_of_rows"}
    assert kept == {bfloat16}
