"""Records on complex operands: the real graph that is compiled means what the reference means.

Every sample of every record is made complex; a record that takes no complex numbers must refuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _graph import primitives
from _vjp import WIDE, cotangent, numeric, vjp

from rushlight.compiler.graph.complex_to_real import complex_to_real
from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, topological
from rushlight.ir.opdef import NotDifferentiable, OpDef, all_ops
from rushlight.ops.samples import Sample
from rushlight.testing.calls import Built, samples_of

REFUSALS = (RuntimeError, NotImplementedError, TypeError)
# Results that are known up to a phase, or operands that must be Hermitian.
PHASES = set("qr svd eig eigh lu".split())
NOT_HERMITIAN = set("cholesky eigh".split())


def turned(value: Any, rng: np.random.Generator) -> Any:
    """A float operand with an imaginary part."""
    if isinstance(value, list):
        return [turned(item, rng) for item in value]
    if value is None or np.asarray(value).dtype != np.float64:
        return value
    return value + 1j * rng.uniform(-1.5, 1.5, np.shape(value))


def calls_of(record: OpDef, dtype: Any = np.complex128) -> list[Built]:
    rng = np.random.default_rng(5)
    found = []
    for sample in samples_of(record):
        operands = [p for p in record.params if not p.is_attr]
        args = tuple(
            turned(arg, rng) if p.kind == "tensor" else arg
            for p, arg in zip(operands, sample.args, strict=False)
        )
        if not any(
            np.iscomplexobj(a) for arg in args for a in (arg if type(arg) is list else [arg])
        ):
            continue
        try:
            found.append(Built(record, Sample(narrowed(args, dtype), sample.attrs, sample.skip)))
        except REFUSALS:
            continue
    return found


def narrowed(args: tuple, dtype: Any) -> tuple:
    def one(value: Any) -> Any:
        if isinstance(value, list):
            return [one(item) for item in value]
        return value.astype(dtype) if np.iscomplexobj(value) else value

    return tuple(map(one, args))


def takes_complex(record: OpDef) -> bool:
    return record.samples is not None and record.name != "complex_host" and bool(calls_of(record))


RECORDS = [r for r in all_ops().values() if takes_complex(r)]


def compiled_value(built: Built, root: Node) -> np.ndarray:
    """What the real graph of a node computes, on the memory of its operands."""
    leaves = [n for n in topological([root]) if n.leaf == "buffer"]
    (made,), moved = complex_to_real([primitives(root)], leaves)
    assert all(n.dtype.kind != "complex" for n in topological([made]))
    memory = {moved[leaf]: real_memory(built.arrays[leaf]) for leaf in leaves}
    (found,) = interpret([made], memory.__getitem__)
    if root.dtype.kind != "complex":
        return found
    return np.ascontiguousarray(found).view(root.dtype.np)[..., 0]


def real_memory(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)


def test_most_records_take_complex_numbers():
    assert len(RECORDS) > 140, len(RECORDS)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
@pytest.mark.parametrize(("dtype", "limit"), [(np.complex128, 1e-9), (np.complex64, 1e-4)])
def test_the_real_graph_agrees_with_the_reference(record, dtype, limit):
    for built in calls_of(record, dtype):
        (want,) = built.run(built.node)
        have = compiled_value(built, built.node)
        assert have.dtype == want.dtype
        scale = max(1.0, np.abs(want).max(initial=0)) if want.dtype.kind in "fc" else 1
        np.testing.assert_allclose(have / scale, want / scale, rtol=limit, atol=limit)


GRADIENTS = [
    r for r in RECORDS if not isinstance(r.grad, NotDifferentiable) and r.name not in NOT_HERMITIAN
]


@pytest.mark.parametrize("record", GRADIENTS, ids=lambda r: r.name)
def test_gradient_agrees_with_finite_differences(record):
    for built in calls_of(record):
        if built.node.dtype.name not in WIDE or record.name in PHASES - {"eig"}:
            continue
        wanted = [
            (name, node) for name, node in built.operands()
            if node.dtype.name in WIDE and name not in built.sample.skip
        ]  # fmt: skip
        weights = cotangent(built.node.shape, built.node.dtype)
        grads = vjp(built.node, built.leaf(weights), [node for _, node in wanted])
        for (name, node), grad in zip(wanted, grads, strict=True):
            want = numeric(built, node, weights)
            have = np.zeros_like(want) if grad is None else compiled_value(built, grad)
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, rtol=3e-5, atol=3e-6, err_msg=name)


ANALYTIC = (
    "exp exp2 expm1 log log2 log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh sigmoid abs angle"
).split()
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-20, -1e-20, 1e15, -1e15, 1e200]


def plane(parts: list[float]) -> np.ndarray:
    """Every pair of parts."""
    re, im = np.meshgrid(parts, parts)
    return np.stack([re, im], -1).view(np.complex128).reshape(-1)


@pytest.mark.parametrize("name", ANALYTIC)
def test_branch_cuts_and_the_signs_of_zeros_are_those_of_c99(name):
    built = Built(all_ops()[name], Sample((plane(PARTS),)))
    (want,) = built.run(built.node)
    have = compiled_value(built, built.node)
    for a, b in zip(real_parts(have), real_parts(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-300)
        known = ~np.isnan(b)
        np.testing.assert_array_equal(np.signbit(a[known]), np.signbit(b[known]))


def real_parts(array: np.ndarray) -> tuple[np.ndarray, ...]:
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


INFINITE = {
    "atan": (complex(np.inf, 0), np.pi / 2), "atanh": (complex(np.inf, 1), 1j * np.pi / 2),
    "sinh": (complex(np.inf, 0), complex(np.inf, 0)),
    "sqrt": (complex(-np.inf, 1), complex(0, np.inf)),
    "exp": (complex(-np.inf, 3), 0), "log": (complex(0, -np.inf), complex(np.inf, -np.pi / 2)),
    "abs": (complex(np.nan, np.inf), np.inf), "tanh": (complex(np.inf, 1), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", INFINITE)
def test_at_infinity(name):
    at, want = INFINITE[name]
    built = Built(all_ops()[name], Sample((np.array([at]),)))
    have = compiled_value(built, built.node)
    np.testing.assert_allclose(real_parts(have)[0], np.real(want), atol=1e-15)
    np.testing.assert_allclose(have.imag, np.imag(want), atol=1e-15)
