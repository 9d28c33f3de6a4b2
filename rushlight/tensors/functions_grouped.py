"""Products with scales (float8) and products in groups (a mixture of experts).

The offsets of groups are read, as they are sizes of parts; everything else stays lazy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base.dtypes import DType, bfloat16, float16, float32, int32
from rushlight.tensors.apply import cast
from rushlight.tensors.creation import zeros
from rushlight.tensors.functions_linalg import bmm, matmul
from rushlight.tensors.functions_shape import cat, stack
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.tensor import Tensor

GROUPED = (float32, bfloat16, float16)


def _is_float8(dtype: Any) -> bool:
    return dtype.name.startswith("float8")


def _scaled_mm(
    input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
    scale_result: Tensor | None = None, out_dtype: Any = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """(input * scale_a) @ (mat2 * scale_b) of float8 matrices, summed in float32.

    scale_a and scale_b: float32, one number each, or (rows, 1) and (1, columns). `out_dtype`: that
    of `input` if None; a float8 `out_dtype` divides by `scale_result` too. `use_fast_accum` changes
    nothing here.
    """
    for number, matrix in enumerate((input, mat2), 1):
        if matrix.dim() != 2:
            raise RuntimeError(f"mat{number} must be a matrix")
    (rows, inner), (inner2, columns) = input._shape, mat2._shape
    if inner != inner2:
        raise RuntimeError(
            f"mat_a and mat_b shapes cannot be multiplied ({rows}x{inner} and {inner2}x{columns})"
        )
    one = scale_a.numel() == 1 and scale_b.numel() == 1
    by_row = (scale_a._shape, scale_b._shape) == ((rows, 1), (1, columns))
    floats = scale_a._dtype is float32 and scale_b._dtype is float32
    if not (floats and (one or by_row) and _is_float8(input._dtype) and _is_float8(mat2._dtype)):
        raise ValueError(
            "Invalid scaling configuration: _scaled_mm takes float8 matrices and float32 scales of "
            f"one number each or of shapes ({rows}, 1) and (1, {columns}), but got "
            f"{input._dtype}, {mat2._dtype} and scales {tuple(scale_a._shape)} of "
            f"{scale_a._dtype}, {tuple(scale_b._shape)} of {scale_b._dtype}"
        )
    if one:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    result = matmul(cast(input, float32) * scale_a, cast(mat2, float32) * scale_b)
    if bias is not None:
        result = result + bias
    dtype = input._dtype if out_dtype is None else out_dtype
    if scale_result is not None and out_dtype is not None and _is_float8(dtype):
        result = result / scale_result
    return cast(result, dtype)


def _grouped_mm(
    input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Products of groups; `offs` (int32) says where each group ends.

    (m, k) by (groups, k, n): rows in groups, (m, n). (groups, m, k) by (k, n): columns in groups,
    (m, n). (m, k) by (k, n): k in groups, (groups, m, n). Two batches: their products, without
    `offs`. What comes after the last end is zero.

    >>> import rushlight as torch
    >>> ends = torch.tensor([1, 3], dtype=torch.int32)
    >>> torch._grouped_mm(torch.ones(3, 2), torch.ones(2, 2, 1) * torch.tensor([[[1.]], [[5.]]]),
    ...                   offs=ends).tolist()
    [[2.0], [10.0], [10.0]]
    """
    _check_grouped(input, mat2, offs, bias, out_dtype)
    if offs is None:
        return bmm(input, mat2)
    left, right = input.dim() == 2, mat2.dim() == 2
    ends = [0, *offs.tolist()]
    spans = [(a, b - a) for a, b in zip(ends, ends[1:], strict=False)]
    if left and right:
        parts = [matmul(narrow(input, 1, *span), narrow(mat2, 0, *span)) for span in spans]
        return stack(parts)
    dim = 0 if left else 1
    total = input._shape[0] if left else mat2._shape[1]
    parts = [
        matmul(narrow(input, 0, *span), mat2[g]) if left
        else matmul(input[g], narrow(mat2, 1, *span))
        for g, span in enumerate(spans)
    ]  # fmt: skip
    rest = total - ends[-1]
    if rest:
        shape = (rest, mat2._shape[2]) if left else (input._shape[1], rest)
        parts.append(zeros(shape, dtype=input._dtype))
    return cat(parts, dim)


def _check_grouped(
    input: Tensor, mat2: Tensor, offs: Tensor | None, bias: Any, out_dtype: DType | None
) -> None:
    """PyTorch's conditions, in its words."""
    wrong = ""
    sizes = {t.dim() for t in (input, mat2)}
    if not sizes <= {2, 3}:
        wrong = "mat_a and mat_b have to be 2 or 3 dimensional"
    elif input._dtype not in GROUPED:
        wrong = f"Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {input._dtype}"
    elif mat2._dtype is not input._dtype:
        have = f"{input._dtype} != {mat2._dtype}"
        wrong = f"expected m1 and m2 to have the same dtype, but got: {have}"
    elif input._shape[-1] != mat2._shape[-2]:
        wrong = "contraction dimension of mat_a and mat_b must match"
    elif (offs is not None) != (2 in sizes):
        wrong = (
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    elif offs is not None and offs._dtype is not int32:
        wrong = "Offsets have to be int32"
    elif any(t.dim() == 3 and t._shape[0] != _groups(input, offs) for t in (input, mat2)):
        wrong = "matrix batch sizes have to match"
    elif bias is not None:
        wrong = "Bias not supported yet"
    elif out_dtype is not None and out_dtype is not input._dtype:
        wrong = "Grouped gemm output dtype must match `mat_a` dtype"
    if wrong:
        raise RuntimeError(wrong)


def _groups(input: Tensor, offs: Tensor | None) -> Any:
    return input._shape[0] if offs is None else offs._shape[0]


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Products of groups of rows, of columns or of the inner dimension: see `_grouped_mm`."""
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


FUNCTIONS: dict[str, Callable] = {"_scaled_mm": _scaled_mm, "_grouped_mm": _grouped_mm}
METHODS: dict[str, Callable] = {}
