"""Layouts of blocks, batches of products, cat and stack; figures are PyTorch's."""

import numpy as np
import pytest

import rushlight as torch

BLOCKS = np.arange(24, dtype=np.float32).reshape(4, 6)
BLOCKS[0:2, 2:4] = 0
BLOCKS[2:, 0:2] = 0
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
CUBE[CUBE % 3 == 0] = 0


def same(found, wanted):
    dense = found if found.layout is torch.strided else found.to_dense()
    np.testing.assert_array_equal(dense.detach().numpy(), wanted)


@pytest.mark.parametrize("layout, block, count", [
    (torch.sparse_bsr, (2, 2), 4), (torch.sparse_bsr, (4, 3), 2), (torch.sparse_bsc, (2, 3), 4),
    (torch.sparse_bsc, (1, 2), 8),
])  # fmt: skip
def test_through_blocks_and_back(layout, block, count):
    x = torch.tensor(BLOCKS).to_sparse(layout=layout, blocksize=block)
    assert (x.layout, x._nnz(), x.values().shape[1:]) == (layout, count, block)
    assert (x.sparse_dim(), x.dense_dim(), x.is_sparse, x.is_sparse_csr) == (2, 0, False, False)
    ones = torch.ones(6, 2)
    for found, wanted in [
        (x, BLOCKS), (x.t(), BLOCKS.T), (x.T, BLOCKS.T), (x.to_sparse(), BLOCKS),
        (x.to_sparse_csr(), BLOCKS), (x @ ones, BLOCKS @ np.ones((6, 2))), (x * 2, 2 * BLOCKS),
        (x @ torch.ones(6), BLOCKS.sum(1)), (torch.ones(2, 4) @ x, np.ones((2, 4)) @ BLOCKS),
        (x + x, 2 * BLOCKS), (-x, -BLOCKS), (x.double(), BLOCKS), (x.sum(), BLOCKS.sum()),
        (torch.addmm(torch.ones(4, 2), x, ones), 1 + BLOCKS @ np.ones((6, 2))),
    ]:  # fmt: skip
        same(found, wanted)
    assert (x + x).layout is layout and x.t().layout is not layout


def test_parts_of_blocks():
    x = torch.tensor(BLOCKS).to_sparse_bsr((2, 2))
    assert x.crow_indices().tolist() == [0, 2, 4] and x.col_indices().tolist() == [0, 2, 1, 2]
    assert x.values()[1].tolist() == [[4, 5], [10, 11]]
    y = torch.tensor(BLOCKS).to_sparse_bsc((2, 3))
    assert y.ccol_indices().tolist() == [0, 2, 4] and y.row_indices().tolist() == [0, 1, 0, 1]
    with pytest.raises(RuntimeError, match="SparseBsr"):
        x.ccol_indices()
    lines = repr(x).split("\n")
    assert lines[3] == "                       [ 6.,  7.]]," and lines[4] == ""


def test_blocks_from_parts():
    values = torch.arange(8.0).reshape(2, 2, 2)
    wanted = [[0, 0, 0, 1], [0, 0, 2, 3], [4, 5, 0, 0], [6, 7, 0, 0]]
    same(torch.sparse_bsr_tensor([0, 1, 2], [1, 0], values), wanted)
    by_columns = torch.sparse_compressed_tensor(
        [0, 1, 2], [1, 0], values, (4, 4), layout=torch.sparse_bsc
    )
    same(by_columns, [[0, 0, 4, 5], [0, 0, 6, 7], [0, 1, 0, 0], [2, 3, 0, 0]])
    with pytest.raises(RuntimeError, match="size"):
        torch.sparse_bsr_tensor([0, 1, 2], [1, 0], values, (3, 4))
    with pytest.raises(RuntimeError, match=r"divisible by given blocksize \(3, 2\)"):
        torch.tensor(BLOCKS).to_sparse_bsr((3, 2))


def test_gradients_through_blocks():
    x = torch.tensor(BLOCKS, requires_grad=True)
    x.to_sparse_bsr((2, 2)).to_dense().pow(2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * BLOCKS)


def test_batches_of_products():
    weight = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    x, w = torch.tensor(CUBE).to_sparse(), torch.tensor(weight, requires_grad=True)
    found = torch.bmm(x, w)
    same(found, CUBE @ weight)
    found.sum().backward()
    same(w.grad, np.repeat(CUBE.sum(1)[:, :, None], 2, 2))
    for wrong in (torch.ones(2, 3, 2), torch.ones(1, 4, 2)):
        with pytest.raises(RuntimeError, match="mat2"):
            x.bmm(wrong)
    with pytest.raises(NotImplementedError, match="bmm"):
        torch.bmm(torch.ones(2, 2, 3), x)


@pytest.mark.parametrize("sparse_dims", [1, 2, 3])
def test_cat_and_stack_along_every_dimension(sparse_dims):
    x = torch.tensor(CUBE).to_sparse(sparse_dims)
    for dim in range(-3, 3):
        same(torch.cat([x, x * 2], dim), np.concatenate([CUBE, 2 * CUBE], dim))
    for dim in range(-4, 4):
        same(torch.stack([x, x * 2], dim), np.stack([CUBE, 2 * CUBE], dim))
    with pytest.raises(IndexError, match="out of range"):
        torch.stack([x], 4)
    with pytest.raises(RuntimeError, match="equal size"):
        torch.stack([x, x[0]])


def test_turned():
    x = torch.tensor(CUBE).to_sparse()
    same(x.transpose(0, -1), CUBE.transpose(2, 1, 0))
    same(x.mT, CUBE.transpose(0, 2, 1))
    same(torch.swapaxes(x, 0, 1), CUBE.transpose(1, 0, 2))
    with pytest.raises(RuntimeError, match="3 sparse and 0 dense"):
        x.t()
    with pytest.raises(IndexError, match="out of range"):
        x.transpose(0, 5)
