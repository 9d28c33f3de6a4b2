"""Every record against its own reference: shapes, dtypes, decomposition, gradients, errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from _graph import close, expand_where, primitives, with_rules
from _vjp import WIDE, cotangent, numeric, vjp

from rushlight.ir.node import topological
from rushlight.ir.opdef import FROM_DECOMPOSITION, NotDifferentiable, all_ops
from rushlight.ops.samples import Sample
from rushlight.testing.calls import Built, samples_of

RECORDS = list(all_ops().values())
COMPOSITES = [r for r in RECORDS if r.decompose is not None]


def ids(record) -> str:
    return record.name


@pytest.mark.parametrize("record", RECORDS, ids=ids)
def test_record_is_complete(record):
    assert record.doc.endswith(".")
    assert samples_of(record), "a record has samples"
    if isinstance(record.grad, NotDifferentiable):
        assert record.grad.reason


@pytest.mark.parametrize("record", RECORDS, ids=ids)
def test_shape_and_dtype_rules_agree_with_reference(record):
    for sample in samples_of(record):
        built = Built(record, sample)
        (value,) = built.run(built.node)  # the interpreter compares the shapes
        raw = np.asarray(record.reference(*sample.args, **_attrs(built)))
        assert raw.dtype.kind == value.dtype.kind or built.node.dtype.kind in ("uint", "float")
        again = record.call_of(built.node)
        assert record.shape(again) == built.node.shape
        assert record.dtype(again) is built.node.dtype


def _attrs(built: Built) -> dict:
    call = built.record.call_of(built.node)
    return {p.name: call[p.name] for p in built.record.params if p.is_attr}


@pytest.mark.parametrize("record", COMPOSITES, ids=ids)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_decomposition_agrees_with_reference(record, dtype):
    np_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for sample in samples_of(record):
        built = Built(record, sample, np_dtype)
        graph = primitives(built.node)
        assert all(n.leaf or n.op.decompose is None for n in topological([graph]))
        want, have = built.run(built.node, graph)
        scale = 30 if record.name in ("trigamma", "normal") else 1
        close(have, want, built.node.dtype, scale)


GRADIENTS = [r for r in RECORDS if not isinstance(r.grad, NotDifferentiable)]


@pytest.mark.parametrize("record", GRADIENTS, ids=ids)
def test_gradient_agrees_with_finite_differences(record):
    checked = False
    for sample in samples_of(record):
        built = Built(record, sample)
        if built.node.dtype.name not in WIDE:
            continue
        weights = cotangent(built.node.shape, built.node.dtype)
        wanted = [
            (name, node) for name, node in built.operands()
            if node.dtype.name in WIDE and name not in sample.skip
        ]  # fmt: skip
        nodes = [node for _, node in wanted]
        for (name, node), grad in zip(wanted, _gradients(built, weights, nodes), strict=True):
            want = numeric(built, node, weights)
            have = np.zeros(want.shape) if grad is None else grad
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=3e-5, atol=3e-6, err_msg=name)
            checked = True
    assert checked, "no sample has a wide operand and result"


def _gradients(built: Built, weights: np.ndarray, nodes: list, root=None) -> list:
    grads = vjp(root or built.node, built.leaf(weights), nodes)
    values = iter(built.run(*(g for g in grads if g is not None)))
    return [None if g is None else next(values) for g in grads]


HAND = [r for r in COMPOSITES if callable(r.grad)]


@pytest.mark.parametrize("record", HAND, ids=ids)
def test_hand_gradient_agrees_with_decomposition(record):
    for sample in samples_of(record):
        built = Built(record, sample)
        if built.node.dtype.name not in WIDE:
            continue
        weights = cotangent(built.node.shape, built.node.dtype)
        nodes = [n for name, n in built.operands() if n.dtype.name in WIDE]
        nodes = [n for n in nodes if n.shape != () or record.name != "logit"]
        below = with_rules(expand_where(built.node, lambda op: op is record))
        hand = _gradients(built, weights, nodes)
        other = _gradients(built, weights, nodes, below)
        for a, b in zip(hand, other, strict=True):
            if a is not None and b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("record", GRADIENTS, ids=ids)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient_in_other_dtypes_agrees_with_float64(record, dtype):
    if record.kind == "host" and dtype == "bfloat16":
        pytest.skip("the host computes float32 and float64")
    np_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for sample in samples_of(record):
        wide = Built(record, sample)
        narrow = Built(record, sample, np_dtype)
        if wide.node.dtype.name != "float64":
            continue
        weights = np.random.default_rng(1).uniform(0.5, 1.5, wide.node.shape)
        pairs = [
            (a, b) for (name, a), (_, b) in zip(wide.operands(), narrow.operands(), strict=True)
            if a.dtype.name == "float64" and name not in sample.skip
        ]  # fmt: skip
        want = _gradients(wide, weights, [a for a, _ in pairs])
        have = _gradients(narrow, weights.astype(narrow.node.dtype.np), [b for _, b in pairs])
        for a, b in zip(want, have, strict=True):
            assert (a is None) == (b is None)
            if a is None or dtype == "bfloat16":
                continue
            scale = max(1.0, np.abs(a).max(initial=0))
            np.testing.assert_allclose(b / scale, a / scale, rtol=2e-3, atol=2e-4)


ERRORS = [(r, e) for r in RECORDS for e in r.error_samples]


@pytest.mark.parametrize(("record", "error"), ERRORS, ids=[r.name for r, _ in ERRORS])
def test_bad_call_raises(record, error):
    with pytest.raises(error.error) as caught:
        Built(record, Sample(error.args, error.attrs))
    assert error.text in str(caught.value)


def test_from_decomposition_has_a_decomposition():
    assert all(r.decompose for r in RECORDS if r.grad is FROM_DECOMPOSITION)
