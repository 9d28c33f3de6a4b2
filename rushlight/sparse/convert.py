"""From indices and values, and from dense tensors, to sparse tensors and back.

Everything is made of ordinary tensor operations on the indices and values, so it is compiled and
differentiated as they are.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.sparse.blocks import block_of, elements, gathered
from rushlight.sparse.tensor import LAYOUTS, SparseTensor, make


def _index_tensor(value: Any) -> Any:
    found = torch.as_tensor(value)
    if found.numel() and (found.is_floating_point() or found.is_complex()):
        raise IndexError(
            f"tensors used as indices must be of an integer type, but got {found.dtype}"
        )
    return found.to(torch.int64)


def _value_tensor(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    found = torch.as_tensor(values, dtype=dtype, device=device)
    return found.detach().requires_grad_() if requires_grad else found


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse tensor from indices (dimensions, count) and values (count, ...).

    An index may come several times: its values are added. size: found from the indices if left
    out. Raises RuntimeError when the counts differ or an index is out of range.

    >>> import rushlight as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if indices is None or (values is None and size is None):
        size = indices if indices is not None else size
        indices = torch.zeros(len(size), 0, dtype=torch.int64, device=device)
        values = torch.zeros(0, dtype=dtype, device=device)
    where = _index_tensor(indices)
    given = _value_tensor(values, dtype, device, requires_grad)
    if where.numel() == 0 and where.dim() == 1:
        where = where.reshape(0 if size is None else len(size), 0)
    if where.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(where.shape)}")
    if given.dim() == 0:
        given = given.expand(where.shape[1])
    if where.shape[1] != given.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{where.shape[1]}, nnz from values: {given.shape[0]}"
        )
    size = _checked_size(where, given, size)
    return make("coo", (where,), given, size, bool(is_coalesced))


def _checked_size(where: Any, values: Any, size: Any) -> tuple[int, ...]:
    """The size: the given one, if the indices are inside, or the smallest one."""
    dense = tuple(values.shape[1:])
    highest = [int(i) for i in where.max(1).values.tolist()] if where.shape[1] else []
    if size is None:
        if not highest:
            return (*[0] * where.shape[0], *dense)
        return (*(h + 1 for h in highest), *dense)
    size = tuple(int(s) for s in size)
    if len(size) != where.shape[0] + len(dense):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({where.shape[0]}) + dense_dim "
            f"({len(dense)}), but got {len(size)}"
        )
    for d, high in enumerate(highest):
        low = int(where[d].min())
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {d}")
        if high >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found "
                f"index {high}"
            )
    return size


def _kind_of(layout: Any) -> str:
    name = repr(layout).rpartition("_")[2]
    if name not in LAYOUTS:
        raise NotImplementedError(f"layout {layout} is not supported: sparse_{', '.join(LAYOUTS)}")
    return name


def _compressed(
    kind: str, pointers: Any, inner: Any, values: Any, size: Any, options: dict[str, Any]
) -> SparseTensor:
    first, second = _index_tensor(pointers), _index_tensor(inner)
    given = _value_tensor(
        values, options.get("dtype"), options.get("device"), options.get("requires_grad", False)
    )
    lines = first.shape[0] - 1
    if second.shape[0] != given.shape[0]:
        raise RuntimeError(
            "number of indices and of values must be the same, but got "
            f"{second.shape[0]} and {given.shape[0]}"
        )
    if int(first[0]) != 0 or int(first[-1]) != second.shape[0]:
        raise RuntimeError(
            f"the pointers must go from 0 to the number of values, {second.shape[0]}, but go from "
            f"{int(first[0])} to {int(first[-1])}"
        )
    block = tuple(given.shape[1:3]) if kind in ("bsr", "bsc") else (1, 1)
    if len(block) != 2:
        raise RuntimeError(f"values of blocks must have 3 dimensions, but got {given.dim()}")
    side = 0 if kind in ("csr", "bsr") else 1
    if size is None:
        other = int(second.max()) + 1 if second.shape[0] else 0
        counts = (lines, other) if side == 0 else (other, lines)
        size = tuple(count * length for count, length in zip(counts, block, strict=True))
    if tuple(size)[side] != lines * block[side]:
        raise RuntimeError(f"size {tuple(size)} does not go with {lines} + 1 pointers")
    return make(kind, (first, second), given, tuple(size), True)


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """A matrix by rows: row i has the values from crow_indices[i] to crow_indices[i + 1]."""
    return _compressed("csr", crow_indices, col_indices, values, size, options)


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """A matrix by columns."""
    return _compressed("csc", ccol_indices, row_indices, values, size, options)


def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """A matrix by rows of blocks; values: (count, block rows, block columns).

    >>> import rushlight as torch
    >>> torch.sparse_bsr_tensor([0, 1], [1], [[[3.], [4.]]]).to_dense()
    tensor([[0., 3.],
            [0., 4.]])
    """
    return _compressed("bsr", crow_indices, col_indices, values, size, options)


def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """A matrix by columns of blocks; values: (count, block rows, block columns)."""
    return _compressed("bsc", ccol_indices, row_indices, values, size, options)


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    layout: Any = None, **options: Any,
) -> SparseTensor:  # fmt: skip
    """A matrix by rows or columns, as `layout` says: torch.sparse_csr, csc, bsr or bsc."""
    kind = _kind_of(layout)
    if kind == "coo":
        raise RuntimeError(f"layout {layout}: expected sparse_csr, sparse_csc, sparse_bsr or bsc")
    return _compressed(kind, compressed_indices, plain_indices, values, size, options)


# Between the layouts ------------------------------------------------------------------------


def flat_index(x: SparseTensor) -> Any:
    """One number for the place of each value, over the sparse dimensions."""
    where, size = x.index[0], x._shape
    flat = torch.zeros(where.shape[1], dtype=torch.int64, device=x.device)
    for d in range(where.shape[0]):
        flat = flat * size[d] + where[d]
    return flat


def unflattened(flat: Any, size: Any) -> Any:
    """The indices (dimensions, count) of such numbers."""
    rows = []
    for length in reversed(tuple(size)):
        rows.append(flat % max(length, 1))
        flat = flat.div(max(length, 1), rounding_mode="floor")
    return torch.stack(rows[::-1]) if rows else flat.new_zeros(0, len(flat))


def coalesce(x: SparseTensor) -> SparseTensor:
    """Each index once, in row-major order; values of equal indices added."""
    if x.kind != "coo":
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got SparseCsr")
    if x.sorted_once:
        return x
    flat, inverse = torch.unique(flat_index(x), return_inverse=True)
    zero = torch.zeros(flat.shape[0], *x.vals.shape[1:], dtype=x.dtype, device=x.device)
    values = zero.index_add(0, inverse, x.vals)
    where = unflattened(flat, x._shape[: x.sparse_dim()])
    return make("coo", (where,), values, x._shape, True)


def to_coo(x: Any) -> SparseTensor:
    """In the coordinate layout."""
    if x.kind == "coo":
        return x
    pointers, inner = x.index
    counts = pointers[1:] - pointers[:-1]
    lines = torch.arange(counts.shape[0], device=x.device).repeat_interleave(counts)
    rows, columns = (lines, inner) if x.kind in ("csr", "bsr") else (inner, lines)
    if block_of(x):
        return elements(x, rows, columns)
    where = torch.stack([rows, columns])
    return make("coo", (where,), x.vals, x._shape, x.kind == "csr")


def to_compressed(x: SparseTensor, kind: str, block: Any = None) -> SparseTensor:
    """In the layout "csr", "csc", "bsr" or "bsc"; the last two in blocks of this size."""
    if x.kind == kind and (block is None or tuple(block) == block_of(x)):
        return x
    found = coalesce(to_coo(x))
    if found.sparse_dim() != 2:
        raise RuntimeError(f"to_sparse_{kind}: expected a matrix, got {found.dim()} dimensions")
    size, by_columns = x._shape, kind in ("csc", "bsc")
    if kind in ("bsr", "bsc"):
        found = gathered(found, block)
    rows, columns = found.index[0][0], found.index[0][1]
    values = found.vals
    if by_columns:
        order = torch.argsort(columns * max(found._shape[0], 1) + rows)
        rows, columns, values = columns[order], rows[order], values[order]
    lines = found._shape[1 if by_columns else 0]
    counts = torch.bincount(rows, minlength=lines)
    pointers = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return make(kind, (pointers, columns), values, size, True)


def in_layout(found: SparseTensor, like: SparseTensor) -> SparseTensor:
    """`found` in the layout of another one."""
    return found if like.kind == "coo" else to_compressed(found, like.kind, block_of(like))


def to_dense(x: SparseTensor, dtype: Any = None, *, masked_grad: Any = None) -> Any:
    """The ordinary tensor, with zeros."""
    found = to_coo(x)
    sparse = found._shape[: found.sparse_dim()]
    size = (math.prod(sparse), *found._shape[len(sparse) :])
    zero = torch.zeros(size, dtype=x.dtype, device=x.device)
    dense = zero.index_add(0, flat_index(found), found.vals).reshape(found._shape)
    return dense if dtype is None else dense.to(dtype)


def from_dense(x: Any, sparse_dim: int | None = None) -> SparseTensor:
    """The values that are not zero; the first `sparse_dim` dimensions are sparse."""
    count = x.dim() if sparse_dim is None else sparse_dim
    if not 0 <= count <= x.dim():
        raise RuntimeError(f"sparse_dim: got {count}, allowed are 0 to {x.dim()}")
    rest = tuple(range(count, x.dim()))
    present = (x != 0).any(rest) if len(rest) == 1 else (x != 0)
    for d in reversed(rest) if len(rest) > 1 else ():
        present = present.any(d)
    where = present.nonzero().T.contiguous()
    return make("coo", (where,), x[tuple(where.unbind(0))], x.shape, True)


def to_sparse(
    x: Any, *args: Any, layout: Any = None, blocksize: Any = None, **_: Any
) -> SparseTensor:
    """`x.to_sparse()`, `x.to_sparse(sparse_dim)`, `x.to_sparse(layout=torch.sparse_csr)`."""
    found = x if isinstance(x, SparseTensor) else from_dense(x, *args)
    name = "coo" if layout is None else _kind_of(layout)
    return to_coo(found) if name == "coo" else to_compressed(found, name, blocksize)


def to_sparse_csr(x: Any, dense_dim: Any = None) -> SparseTensor:
    return to_sparse(x, layout=torch.sparse_csr)


def to_sparse_csc(x: Any, dense_dim: Any = None) -> SparseTensor:
    return to_sparse(x, layout=torch.sparse_csc)


def to_sparse_bsr(x: Any, blocksize: Any, dense_dim: Any = None) -> SparseTensor:
    return to_sparse(x, layout=torch.sparse_bsr, blocksize=blocksize)


def to_sparse_bsc(x: Any, blocksize: Any, dense_dim: Any = None) -> SparseTensor:
    return to_sparse(x, layout=torch.sparse_bsc, blocksize=blocksize)


def sparse_mask(x: Any, mask: SparseTensor) -> SparseTensor:
    """The values of `x` where `mask` has values."""
    pattern = to_coo(mask)
    dense = to_dense(x) if isinstance(x, SparseTensor) else x
    found = pattern.like(dense[tuple(pattern.index[0].unbind(0))])
    return in_layout(found, mask)
