"""Sparse tensors: parts, conversions, arithmetic against dense tensors, gradients, printing."""

import numpy as np
import pytest

import rushlight as torch

INDEX = [[0, 1, 1, 1], [2, 0, 2, 0]]


def example(dtype=torch.float32, requires_grad=False):
    """With (1, 0) twice."""
    values = torch.tensor([3.0, 4.0, 5.0, 6.0], dtype=dtype)
    return torch.sparse_coo_tensor(INDEX, values, (2, 3), requires_grad=requires_grad)


DENSE = np.array([[0.0, 0.0, 3.0], [10.0, 0.0, 5.0]], np.float32)


def assert_same(found, wanted):
    got = found.to_dense() if hasattr(found, "_nnz") and found.layout != torch.strided else found
    np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-6)


def test_parts():
    x = example()
    assert (x.is_sparse, x.layout, x.shape, x._nnz()) == (True, torch.sparse_coo, (2, 3), 4)
    assert (x.sparse_dim(), x.dense_dim(), x.is_coalesced()) == (2, 0, False)
    with pytest.raises(RuntimeError, match="uncoalesced"):
        x.indices()
    y = x.coalesce()
    assert y.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and y.values().tolist() == [3, 10, 5]
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_through_each_layout_and_back(layout):
    dense = torch.tensor(DENSE)
    x = dense.to_sparse(layout=layout)
    assert x.layout is layout and x._nnz() == 3
    assert_same(x, DENSE)
    assert_same(x.t(), DENSE.T)
    assert_same(x @ torch.ones(3), DENSE.sum(1))
    assert_same(x.to_sparse_coo(), DENSE)
    assert_same(x.to(torch.float64), DENSE)


def test_compressed_rows():
    x = torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 10.0, 5.0], (2, 3))
    assert x.crow_indices().tolist() == [0, 1, 3] and x.col_indices().tolist() == [2, 0, 2]
    assert_same(x, DENSE)
    with pytest.raises(RuntimeError, match="sparse coordinate"):
        x.coalesce()


@pytest.mark.parametrize("use, wanted", [
    (lambda x: x + x, 2 * DENSE), (lambda x: x - 2 * x, -DENSE),
    (lambda x: torch.add(x, x), 2 * DENSE),
    (lambda x: x * 3, 3 * DENSE), (lambda x: 3 * x, 3 * DENSE), (lambda x: x / 2, DENSE / 2),
    (lambda x: x * x, DENSE**2), (lambda x: x * torch.full((2, 3), 2.0), 2 * DENSE),
    (lambda x: torch.ones(2, 3) + x, 1 + DENSE), (lambda x: -x, -DENSE), (lambda x: x**2, DENSE**2),
    (lambda x: x.sqrt(), np.sqrt(DENSE)), (lambda x: torch.tanh(x), np.tanh(DENSE)),
    (lambda x: x.sum(), DENSE.sum()), (lambda x: torch.sparse.sum(x, 0), DENSE.sum(0)),
    (lambda x: torch.sparse.sum(x, (0, 1)), DENSE.sum()), (lambda x: x.transpose(0, 1), DENSE.T),
    (lambda x: torch.mm(x, torch.eye(3)), DENSE),
    (lambda x: torch.ones(4, 2) @ x, np.ones((4, 2)) @ DENSE),
    (lambda x: torch.sparse.mm(x, x.t()), DENSE @ DENSE.T),
    (lambda x: x.index_select(1, torch.tensor([2, 0])), DENSE[:, [2, 0]]),
    (lambda x: x[1], DENSE[1]), (lambda x: x[1, 0], DENSE[1, 0]),
    (lambda x: torch.cat([x, x], 1), np.concatenate([DENSE, DENSE], 1)),
    (lambda x: x.unsqueeze(0), DENSE[None]), (lambda x: x.reshape(3, 2), DENSE.reshape(3, 2)),
    (lambda x: torch.sparse.addmm(torch.ones(2, 3), x, torch.eye(3), beta=2), 2 + DENSE),
    (lambda x: x.float().clone().detach(), DENSE), (lambda x: x.norm(), np.linalg.norm(DENSE)),
])  # fmt: skip
def test_as_dense(use, wanted):
    assert_same(use(example()), wanted)


def test_softmax_is_over_the_values_that_are_there():
    found = torch.sparse.softmax(example().coalesce(), 1).values()
    e = np.exp(np.array([10.0, 5.0]) - 10)
    np.testing.assert_allclose(found.numpy(), [1.0, *(e / e.sum())], rtol=1e-6)


def test_gradients_reach_values_and_dense_operands():
    x, w = example(requires_grad=True), torch.ones(3, 2, requires_grad=True)
    (x @ w).square().sum().backward()
    wanted = 2 * (DENSE @ np.ones((3, 2)))
    assert_same(w.grad, DENSE.T @ wanted)
    assert x.grad.is_sparse
    np.testing.assert_allclose(x.grad.values().numpy(), [2 * wanted[r, 0] for r in (0, 1, 1)])


def test_gradients_through_dense():
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.sparse_coo_tensor([[0, 1]], values, (3,)).to_dense()[1].backward()
    assert values.grad.tolist() == [0.0, 1.0]


def test_dense_dimensions():
    x = torch.sparse_coo_tensor([[1, 1, 0]], torch.ones(3, 2), (2, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (1, 1)
    assert x.coalesce().values().tolist() == [[1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("make, error, words", [
    (lambda: torch.sparse_coo_tensor([[5]], [1.0], (2,)), RuntimeError, "size is 2 but found"),
    (lambda: torch.sparse_coo_tensor([[-1]], [1.0], (2,)), RuntimeError, "negative index"),
    (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0], (2,)), RuntimeError, "same nnz"),
    (lambda: torch.sparse_coo_tensor([[0.5]], [1.0], (2,)), IndexError, "integer type"),
    (lambda: example() + torch.ones(2, 3), RuntimeError, "add(sparse, dense) is not supported"),
    (lambda: torch.conv1d(example(), example()), NotImplementedError, "conv1d is not implemented"),
    (lambda: example() @ torch.ones(2, 2), RuntimeError, "cannot be multiplied"),
    (lambda: torch.ones(2).coalesce(), RuntimeError, "got Strided"),
    (lambda: example().numpy(), TypeError, "to_dense"),
    (lambda: torch.sparse_csr_tensor([0, 2], [0], [1.0]), RuntimeError, "pointers"),
])  # fmt: skip
def test_refusals(make, error, words):
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)


def test_printing():
    assert repr(example().coalesce()) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([ 3., 10.,  5.]),\n"
        "       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(torch.tensor([[0, 1.0], [2, 0]]).to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([1, 0]),\n"
        "       values=tensor([1., 2.]), size=(2, 2), nnz=2, layout=torch.sparse_csr)"
    )


def test_long_parts_are_wrapped_where_they_stand():
    places = torch.arange(12).repeat(2, 1)
    assert repr(torch.sparse_coo_tensor(places, torch.ones(12) * 100, (12, 12)).coalesce()) == (
        "tensor(indices=tensor([[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11],\n"
        "                       [ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11]]),\n"
        "       values=tensor([100., 100., 100., 100., 100., 100., 100., 100., 100.,\n"
        "                      100., 100., 100.]),\n"
        "       size=(12, 12), nnz=12, layout=torch.sparse_coo)"
    )


def test_training_a_graph_network():
    """A layer that sends values along edges learns them."""
    torch.manual_seed(0)
    edges = torch.sparse_coo_tensor([[0, 1, 2, 3], [1, 2, 3, 0]], torch.ones(4), (4, 4))
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    target = torch.randn(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        loss = (torch.sparse.mm(edges, layer(x)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
