"""Sparse tensors against PyTorch: values, patterns, printing, gradients."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

INDEX = [[0, 1, 1, 1], [2, 0, 2, 0]]
USES = {
    "coalesce": lambda m, x: x.coalesce(),
    "add": lambda m, x: (x + x).coalesce(),
    "mul": lambda m, x: (x * x).coalesce(),
    "scale": lambda m, x: x * 2.5,
    "t": lambda m, x: x.t().coalesce(),
    "csr": lambda m, x: x.to_sparse_csr(),
    "csc": lambda m, x: x.to_sparse_csc(),
    "sum": lambda m, x: m.sparse.sum(x, 0),
    "softmax": lambda m, x: m.sparse.softmax(x.coalesce(), 1),
    "log_softmax": lambda m, x: m.sparse.log_softmax(x.coalesce(), 0),
    "mm": lambda m, x: m.sparse.mm(x, m.ones(3, 2)),
    "mm sparse": lambda m, x: m.sparse.mm(x, x.t()),
    "select": lambda m, x: x.coalesce()[1],
    "index_select": lambda m, x: x.index_select(1, m.tensor([2, 0])).coalesce(),
    "cat": lambda m, x: m.cat([x, x], 1).coalesce(),
    "mask": lambda m, x: m.arange(6.0).reshape(2, 3).sparse_mask(x.coalesce()),
    "sqrt": lambda m, x: x.sqrt(),
    "dense": lambda m, x: m.ones(2, 3) + x,
    "diagonals": lambda m, x: m.sparse.spdiags(m.ones(2, 3), m.tensor([0, 1]), (3, 3)),
}


@pytest.mark.parametrize("name", USES)
def test_prints_the_same(name):
    found = [
        repr(USES[name](m, m.sparse_coo_tensor(INDEX, [3.0, 4.0, 5.0, 6.0], (2, 3))))
        for m in (torch, rushlight)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("use", [
    lambda m, x, w: m.sparse.mm(x, w).square().sum(), lambda m, x, w: m.sparse.mm(x, w).sin().sum(),
    lambda m, x, w: (m.sparse.mm(x, w) * w.sum()).sum(),
])  # fmt: skip
def test_gradients(use):
    found = []
    for m in (torch, rushlight):
        x = m.sparse_coo_tensor(INDEX, [3.0, 4.0, 5.0, 6.0], (2, 3), requires_grad=True)
        w = m.linspace(-1, 1, 6).reshape(3, 2).requires_grad_()
        use(m, x, w).backward()
        found.append((w.grad.numpy(), x.grad.to_dense().numpy()))
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
