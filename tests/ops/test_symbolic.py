"""Rules, decompositions and gradients build with symbolic sizes, and mean the same.

Every size of 2 or more of the operands becomes a variable (the same size the same variable). The
graph that comes out is put on the real sizes again and must give the static graph's values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _graph import primitives
from _vjp import vjp

from rushlight.ir.interpret import interpret
from rushlight.ir.node import Node, buffer_node, make_node, topological
from rushlight.ir.opdef import NotDifferentiable, all_ops
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_walk import evaluate
from rushlight.ops.samples import Sample
from rushlight.testing.calls import Built
from rushlight.testing.calls import samples_of as all_samples

# Settings that depend on the sizes as numbers (a slice's end, a factor of a size).
STATIC = set(
    "reshape expand slice_ slice_scatter_ pad repeat as_strided pixel_shuffle unfold roll "
    "one_hot diagonal group_norm iota random_bits uniform normal random_integers solve "
    "masked_scatter conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "qr svd cross col2im".split()
)
RECORDS = [r for r in all_ops().values() if r.name not in STATIC and r.samples]


def variable(size: int) -> Any:
    return size if size < 2 else Var(f"s{size}", lo=2)


class Symbolic:
    """A Built whose buffers have variables for sizes."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.names = {}
        self.back: dict[Node, Node] = {}
        for node in built.arrays:
            shape = tuple(map(variable, node.shape))
            twin = buffer_node(None, shape, node.dtype)
            self.back[twin] = node
            self.names[node] = twin
        inputs = {
            name: [self.names[n] for n in v] if isinstance(v, list) else self.names.get(v)
            for name, v in built.inputs.items()
        }
        self.node = built.record.node(**inputs, **built.attrs)

    def run(self, root: Node) -> np.ndarray:
        """Put every size back to its number, then interpret."""
        done: dict[Node, Node] = {}
        for node in topological([root]):
            if node in self.back:
                done[node] = self.back[node]
            elif node.leaf:
                done[node] = node
            else:
                src = tuple(done[s] for s in node.src)
                attrs = tuple(map(numbers, node.attrs))
                done[node] = make_node(node.op, src, attrs, numbers(node.shape), node.dtype)
        return interpret([done[root]], self.built.arrays.__getitem__)[0]


def numbers(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(numbers, value))
    if isinstance(value, Expr):
        return evaluate(value, {f"s{n}": n for n in range(2, 256)})
    return value


def samples_of(record) -> list[Sample]:
    return [s for s in all_samples(record) if s.args and all(_is_full(a) for a in s.args)]


def _is_full(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_full, value))
    return value is None or np.size(value) > 0


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_symbolic_graph_means_the_same(record):
    for sample in samples_of(record)[:4]:
        built = Built(record, sample)
        symbolic = Symbolic(built)
        (want,) = built.run(built.node)
        have = symbolic.run(primitives(symbolic.node))
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "record",
    # The gradient of lu depends on which of its sizes is larger: it is recorded with numbers only.
    [r for r in RECORDS if not isinstance(r.grad, NotDifferentiable) and r.name != "lu"],
    ids=lambda r: r.name,
)
def test_symbolic_gradient_means_the_same(record):
    for sample in samples_of(record)[:4]:
        built = Built(record, sample)
        if built.node.dtype.name != "float64":
            continue
        weights = built.leaf(np.random.default_rng(1).uniform(0.5, 1.5, built.node.shape))
        symbolic = Symbolic(built)
        nodes = [n for name, n in built.operands() if n.dtype.name == "float64"]
        static = vjp(built.node, weights, nodes)
        traced = vjp(symbolic.node, symbolic.names[weights], [symbolic.names[n] for n in nodes])
        for a, b in zip(static, traced, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                have = symbolic.run(primitives(b))
                np.testing.assert_allclose(have, built.run(a)[0], rtol=1e-9, atol=1e-9)


def test_convolution_takes_a_symbolic_batch_and_image():
    record = all_ops()["conv2d"]
    batch, size = Var("s2", lo=2), Var("s9", lo=5)
    rng = np.random.default_rng(0)
    attrs = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 1), "groups": 1}
    x, w = rng.uniform(-1, 1, (2, 3, 9, 9)), rng.uniform(-1, 1, (4, 3, 3, 2))
    built = Built(record, Sample((x, w, None), attrs))
    nodes = list(built.arrays)
    image = buffer_node(None, (batch, 3, size, size), nodes[0].dtype)
    twin = record.node(image, nodes[1], None, **attrs)
    weights = built.leaf(np.ones(built.node.shape))
    g = buffer_node(None, twin.shape, twin.dtype)
    symbolic = Symbolic.__new__(Symbolic)
    symbolic.built = built
    symbolic.back = {image: nodes[0], nodes[1]: nodes[1], g: weights}
    want = vjp(built.node, weights, nodes[:2])
    have = vjp(twin, g, [image, nodes[1]])
    np.testing.assert_allclose(symbolic.run(primitives(twin)), built.run(built.node)[0])
    for a, b in zip(want, have, strict=True):
        np.testing.assert_allclose(symbolic.run(primitives(b)), built.run(a)[0], rtol=1e-9)
