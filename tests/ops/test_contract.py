"""What other layers rely on: names, binding, number leaves, Meta, operators, einsum."""

from __future__ import annotations

import numpy as np
import pytest
from _graph import primitives

import rushlight.ops as ops
from rushlight.base.dtypes import bfloat16, bool_, float32, float64, int64
from rushlight.ir.node import buffer_node, scalar_node, topological
from rushlight.ir.opdef import all_ops
from rushlight.ops import Meta
from rushlight.ops.samples import Sample
from rushlight.testing.calls import Built

X = buffer_node(None, (3, 4), float32)
PRIMITIVES = {
    "movement": "reshape permute expand slice_ flip pad cat unfold slice_scatter_",
    "reduce": "reduce_sum reduce_prod reduce_max reduce_min reduce_any reduce_all argmax_ argmin_",
    "scan": "scan_sum scan_running_sum scan_prod scan_max scan_min scan_argmax scan_argmin",
    "gather": "gather_nd",
    "scatter": "scatter_nd",
    "dot": "dot dot_sliding",
    "sort": "argsort_ argtopk_",
    "iota": "iota",
    "random": "random_bits",
    "pairs": "pair_dot pair_index pair_mask",
    "attention": "flash_attention flash_lse flash_top pair_sum pair_bins",
}
PARAMS = {
    "reshape": "x shape",
    "expand": "x shape",
    "slice_": "x start length step",
    "pad": "x fill low high interior",
    "cat": "tensors dim",
    "unfold": "x dim size step dilation",
    "slice_scatter_": "x src start length step",
    "reduce_sum": "x dims",
    "scan_sum": "x dim",
    "gather_nd": "x indices",
    "scatter_nd": "x src indices kind",
    "dot": "a b",
    "dot_sliding": "a b outputs taps",
    "argsort_": "x dim descending",
    "argtopk_": "x k dim descending",
    "iota": "length dtype",
    "random_bits": "seed offset shape",
}


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_primitives_are_a_closed_set(kind):
    assert {r.name for r in all_ops().values() if r.kind == kind} == set(PRIMITIVES[kind].split())


@pytest.mark.parametrize("name", PARAMS)
def test_primitives_have_the_agreed_parameters(name):
    assert [p.name for p in all_ops()[name].params] == PARAMS[name].split()


def test_every_record_is_a_python_name():
    for name, record in all_ops().items():
        assert record in (getattr(ops, name, None), getattr(ops, f"{name}_", None))
    assert ops.sum_.name == "sum" and ops.abs_.name == "abs" and ops.pow_.name == "pow"


def test_numbers_take_the_dtype_of_what_they_meet():
    assert ops.add(X, 2).src[1].attrs == (2.0,)
    assert (1.0 - X).src[0].dtype is float32
    value = scalar_node(0.1, float64)
    node = ops.mul(value, X)
    assert node.dtype is float32 and node.src[0].leaf == "scalar" and node.src[0].attrs == (0.1,)
    picked = ops.where(ops.gt(X, 0.0), 0.5, X)
    assert picked.src[1].attrs == (0.5,) and picked.dtype is float32
    assert ops.where(ops.gt(X, 0.0), X, value).src[2].dtype is float32
    assert ops.clamp(X, None, value).dtype is float32


def test_different_dtypes_are_refused():
    other = buffer_node(None, (3, 4), float64)
    with pytest.raises(RuntimeError, match="one dtype"):
        ops.add(X, other)
    with pytest.raises(RuntimeError, match="floating point"):
        ops.exp(buffer_node(None, (2,), int64))


def test_bad_arguments_name_the_argument():
    with pytest.raises(TypeError, match="missing argument 'dims'"):
        ops.permute(X)
    with pytest.raises(TypeError, match="unexpected argument 'axis'"):
        ops.softmax(X, 0, axis=1)
    with pytest.raises(TypeError, match="takes 1 arguments"):
        ops.exp(X, X)
    with pytest.raises(TypeError, match="argument 'input' must be Tensor"):
        ops.softmax(None, 0)


def test_calls_round_trip_through_nodes():
    bias = buffer_node(None, (5,), float32)
    weight = buffer_node(None, (5, 4), float32)
    call = ops.linear.call_of(ops.linear(X, weight, None))
    assert call["bias"] is None and call["weight"] is weight
    call = ops.layer_norm.call_of(ops.layer_norm(X, None, buffer_node(None, (4,), float32), 1, 0.1))
    assert call["weight"] is None and call["bias"].shape == (4,) and call["eps"].attrs == (0.1,)
    assert ops.linear(X, weight, bias) is ops.linear(X, weight, bias=bias)


def test_tensors_in_keywords_are_dispatched():
    class Fake:
        @staticmethod
        def __rushlight_apply__(record, args, kwargs):
            return record, args, kwargs

    fake = Fake()
    assert ops.clamp(X, min=fake)[0] is ops.clamp
    assert ops.cat([fake, X])[0] is ops.cat


def test_meta_holds_no_node():
    weight = buffer_node(None, (4,), bfloat16)
    call = ops.layer_norm.bind(buffer_node(None, (3, 4), bfloat16), weight, None, 1, 1e-5)
    meta = Meta(call, (3, 4), bfloat16, {"weight"})
    assert meta.shape("input") == (3, 4) and meta.ndim("weight") == 1
    assert meta.needs("weight") and not meta.needs("input") and not meta.needs("bias")
    assert meta.has("weight") and not meta.has("bias")
    assert meta.has_narrow() and not meta.widened().has_narrow()
    assert meta.widened().dtype("weight") is float32 and meta.dtype("weight") is bfloat16
    held = [getattr(meta, name) for name in meta.__slots__]
    assert not any("Node" in repr(type(v)) for v in held)


def test_narrow_composites_round_once():
    """softmax of bfloat16: everything inside is float32, one cast at the end."""
    narrow = buffer_node(None, (2, 3), bfloat16)
    inner = topological([primitives(ops.softmax(narrow, 1))])
    casts = [n for n in inner if n.name == "cast"]
    assert [n.dtype for n in casts] == [float32, bfloat16]
    assert all(n.dtype is float32 for n in inner if n not in (narrow, casts[-1]))


def test_cheap_gradients_save_little():
    """What a rule reads is what stays alive until backward."""
    reads = {name: set(all_ops()[name].reads) - {"g", "meta", "dims", "dim"} for name in all_ops()}
    assert (
        reads["relu"] == {"out"} and reads["softmax"] == {"out"} and reads["log_softmax"] == {"out"}
    )
    assert reads["dropout"] == {"p", "seed", "offset"}
    assert reads["add"] == set() and reads["reshape"] == set()
    assert "weight" not in reads["embedding"] and "src" not in reads["scatter_add"]


def test_index_errors_are_seen_early():
    with pytest.raises(IndexError, match="int64"):
        ops.gather_nd(X, [ops.gt(X, 0.0)])
    with pytest.raises(RuntimeError, match="boolean"):
        ops.where(X, X, X)
    assert ops.gt(X, 0.0).dtype is bool_


EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("...ij,...jk->...ik", (2, 2, 2, 3), (2, 2, 3, 4)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 2), (2, 5)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("a,b,c->", (2,), (3,), (2,)),
]


@pytest.mark.parametrize("case", EINSUM, ids=[c[0] for c in EINSUM])
def test_einsum_agrees_with_numpy(case):
    equation, *shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape) for shape in shapes]
    built = Built(all_ops()["neg"], Sample((arrays[0],)))
    node = ops.einsum(equation, *(built.leaf(a) for a in arrays))
    (have,) = built.run(primitives(node))
    np.testing.assert_allclose(have, np.einsum(equation, *arrays), rtol=1e-9, atol=1e-12)


def test_einsum_makes_one_dot_per_pair():
    a, b = buffer_node(None, (2, 3, 4), float32), buffer_node(None, (2, 5, 4), float32)
    names = [n.name for n in topological([ops.einsum("bqd,bkd->bqk", a, b)])]
    assert names.count("dot") == 1 and "reduce_sum" not in names


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("ij,jk->ik", "more operands"),
        ("ijk->i", "does not match the number"),
        ("ij->k", "does not appear"),
        ("ij->ii", "more than once"),
    ],
)
def test_einsum_refuses_bad_equations(equation, text):
    operands = (X, X, X) if "," in equation else (X,)
    with pytest.raises(RuntimeError, match=text):
        ops.einsum(equation, *operands)
