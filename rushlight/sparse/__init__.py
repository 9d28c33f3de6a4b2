"""`torch.sparse`: tensors of which only some elements are there (COO, CSR, CSC, BSR, BSC)."""

from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.sparse import inplace as _inplace  # noqa: F401
from rushlight.sparse.answers import softmax, total
from rushlight.sparse.convert import (
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from rushlight.sparse.products import addmm
from rushlight.sparse.products import matmul as mm
from rushlight.sparse.tensor import SparseTensor

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip
sum = total


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return softmax(input, dim, dtype=dtype, log=True)


def sampled_addmm(
    input: SparseTensor, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0
) -> Any:
    """beta * input + alpha * (mat1 @ mat2), only where `input` has values."""
    found = input.to_sparse_coo()
    rows, columns = found.index[0][0], found.index[0][1]
    products = (mat1[rows] * mat2.T[columns]).sum(1)
    values = beta * found.vals + alpha * products
    return input.like(values)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> SparseTensor:
    """A matrix with the rows of `diagonals` on the diagonals `offsets`."""
    rows, columns, values = [], [], []
    lines = diagonals if diagonals.dim() == 2 else diagonals.unsqueeze(0)
    for line, offset in zip(lines, offsets.reshape(-1).tolist(), strict=True):
        end = min(shape[1], shape[0] + offset, line.shape[0])
        column = torch.arange(max(offset, 0), end, device=diagonals.device)
        rows.append(column - offset)
        columns.append(column)
        values.append(line[column])
    where = torch.stack([torch.cat(rows), torch.cat(columns)])
    found = sparse_coo_tensor(where, torch.cat(values), shape)
    return found if layout is None else found.to_sparse(layout=layout)


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """A gradcheck for functions of sparse tensors: the values are what is varied."""

    def check(func: Any, inputs: Any, **options: Any) -> bool:
        options.pop("masked", None)
        items = list(inputs if isinstance(inputs, list | tuple) else [inputs])
        at = [i for i, item in enumerate(items) if isinstance(item, SparseTensor)]

        def dense(*values: Any) -> Any:
            given = [items[i].like(v) if i in at else v for i, v in enumerate(values)]
            out = func(*given)
            return out.vals if isinstance(out, SparseTensor) else out

        return gradcheck(
            dense, [item.vals if i in at else item for i, item in enumerate(items)], **options
        )

    return check


class check_sparse_tensor_invariants:  # noqa: N801
    """Indices are always checked, so the switch changes nothing."""

    _on = True

    def __init__(self, enable: bool = True) -> None:
        pass

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable() -> None:
        """Accepted."""

    @staticmethod
    def disable() -> None:
        """Accepted."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function
