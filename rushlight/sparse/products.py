"""Products with sparse matrices: they gather rows of the dense operand and add."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.sparse.convert import in_layout, to_coo, to_dense, to_sparse
from rushlight.sparse.tensor import SparseTensor
from rushlight.sparse.turns import transpose


def matmul(a: Any, b: Any) -> Any:
    """sparse @ dense and dense @ sparse are dense, sparse @ sparse is sparse."""
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return in_layout(to_sparse(matmul(a, to_dense(b))), a)
    if not isinstance(a, SparseTensor):
        if a.dim() not in (1, 2):
            raise RuntimeError(f"matmul: a dense matrix expected, got {a.dim()} dimensions")
        return matmul(transpose(b, 0, 1), a.T if a.dim() == 2 else a).T
    if torch.is_autocast_enabled("cpu") and a.dtype is not torch.float64 is not b.dtype:
        low = torch.get_autocast_dtype("cpu")
        a, b = a.like(a.vals.to(low)), b.to(low)
    x = to_coo(a)
    if x.sparse_dim() != 2 or x.dense_dim() or b.dim() not in (1, 2):
        raise RuntimeError(f"addmm: matrices expected, got {max(x.dim(), b.dim())}D tensor")
    if x._shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({x._shape[0]}x{x._shape[1]} and "
            f"{'x'.join(map(str, b.shape))})"
        )
    rows, columns = x.index[0][0], x.index[0][1]
    scale = x.vals if b.dim() == 1 else x.vals.unsqueeze(1)
    size, dtype = (x._shape[0], *b.shape[1:]), torch.promote_types(x.dtype, b.dtype)
    zero = torch.zeros(size, dtype=dtype, device=b.device)
    return zero.index_add(0, rows, (scale * b[columns]).to(zero.dtype))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    product = alpha * matmul(mat1, mat2)
    return beta * input + product


def bmm(input: SparseTensor, mat2: Any) -> Any:
    """A batch of products, (b, n, m) sparse by (b, m, p) dense: dense."""
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise NotImplementedError(
            "bmm of sparse tensors takes a sparse first and a dense second argument"
        )
    x = to_coo(input)
    if x.sparse_dim() != 3 or mat2.dim() != 3:
        raise RuntimeError(f"bmm: 3D tensors expected, got {x.dim()}D and {mat2.dim()}D")
    (count, rows, inner), size = x._shape, tuple(mat2.shape)
    if size[:2] != (count, inner):
        raise RuntimeError(
            f"bmm: expected mat2 to be {count} matrices of {inner} rows, but got shape {size}"
        )
    batch, row, column = x.index[0].unbind(0)
    parts = x.vals.unsqueeze(1) * mat2.reshape(-1, size[2])[batch * inner + column]
    zero = parts.new_zeros(count * rows, size[2])
    return zero.index_add(0, batch * rows + row, parts).reshape(count, rows, size[2])
