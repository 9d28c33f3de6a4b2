"""Products of vectors and matrices, inverse and powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight import ops
from rushlight.base.devices import DEVICES
from rushlight.base.dtypes import bfloat16, float16, int8, int32, uint8
from rushlight.ir.arguments import wrap_dim
from rushlight.ops.movement import must_expand
from rushlight.tensors.apply import apply, cast, check_devices, product_operands
from rushlight.tensors.autocast_rules import autocast_off
from rushlight.tensors.creation import eye
from rushlight.tensors.forms import in_place_form, linked
from rushlight.tensors.functions_complex import conj
from rushlight.tensors.functions_math import sub
from rushlight.tensors.functions_reduce import vector_norm
from rushlight.tensors.functions_slices import diagonal
from rushlight.tensors.functions_view import permute, reshape, unsqueeze
from rushlight.tensors.operands import need_tensor
from rushlight.tensors.out import finish
from rushlight.tensors.placing import brought
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.type_names import cpp_name


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    input, other = product_operands(input, other)
    fits = input._shape and other._shape and input._shape[-1] == other._shape[-2:][0]
    if fits and input._dtype is not other._dtype:  # PyTorch looks at the shapes first
        have = f"{cpp_name(input._dtype)} != {cpp_name(other._dtype)}"
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {have}")
    return finish(apply(ops.matmul, (input, other), label=_product_label(input, other)), out, True)


def _product_label(a: Tensor, b: Tensor) -> str:
    names = {(1, 1): "Dot", (2, 2): "Mm", (2, 1): "Mv", (3, 3): "Bmm"}
    return f"{names.get((a.dim(), b.dim()), 'UnsafeView')}Backward0"


def _matrix(value: Tensor, name: str, ndim: int) -> None:
    if value.dim() != ndim:
        raise RuntimeError(f"{name} must be a {'matrix' if ndim == 2 else f'{ndim}D tensor'}")


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    _matrix(input, "self", 2)
    _matrix(mat2, "mat2", 2)
    return matmul(input, mat2, out=out)


def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    _matrix(input, "batch1", 3)
    _matrix(mat2, "batch2", 3)
    if input._shape[0] != mat2._shape[0] or input._shape[2] != mat2._shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: "
            f"[{input._shape[0]}, {input._shape[2]}] but got: [{mat2._shape[0]}, {mat2._shape[1]}]."
        )
    return matmul(input, mat2, out=out)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    return matmul(input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    for value in (input, tensor):
        if value.dim() != 1:
            raise RuntimeError(
                f"1D tensors expected, but got {input.dim()}D and {tensor.dim()}D tensors"
            )
    if input._dtype is not tensor._dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{input._dtype.scalar_name} and {tensor._dtype.scalar_name}"
        )
    if input._shape != tensor._shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{input.numel()}] and src "
            f"[{tensor.numel()}] to have the same number of elements, but got {input.numel()} and "
            f"{tensor.numel()} elements respectively"
        )
    return matmul(input, tensor)


def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The dot product of two vectors, the first conjugated."""
    return finish(dot(conj(input), other), out)


def inner(input: Tensor, other: Tensor) -> Tensor:
    if not input.dim() or not other.dim():
        return apply(ops.mul, (input, other))
    if input.dim() == other.dim() == 1:
        with autocast_off():  # PyTorch takes `dot`, which autocast leaves alone
            return tensordot(input, other, ([-1], [-1]))
    return tensordot(input, other, ([-1], [-1]))


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Each element of the one times each of the other vector."""
    for name, value in (("self", input), ("vec2", vec2)):
        if value.dim() != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {value.dim()}-D")
    return apply(ops.mul, (unsqueeze(input, 1), unsqueeze(vec2, 0)))


def _factor(value: Any, base: Tensor) -> Any:
    """alpha and beta are numbers of the tensor's dtype."""
    if isinstance(value, complex) and value.imag and not base._dtype.is_complex:
        raise RuntimeError("value cannot be converted to type float without overflow")
    if base._dtype.is_inexact or isinstance(value, Tensor):
        return value
    return bool(value) if base._dtype.kind == "bool" else int(value)


def _combined(base: Tensor, product: Tensor, beta: Any, alpha: Any, label: str) -> Tensor:
    alpha, beta = _factor(alpha, base), _factor(beta, base)
    must_expand(base._shape, product._shape)
    if alpha != 1:
        product = apply(ops.mul, (product, alpha))
    if beta == 0:
        return product
    scaled = base if beta == 1 else apply(ops.mul, (base, beta))
    return apply(ops.add, (scaled, product), label=label)


def _sum_with(
    base: Tensor, multiply: Callable[..., Tensor], factors: tuple[Tensor, Tensor], beta: Any,
    alpha: Any, label: str,
) -> Tensor:  # fmt: skip
    """beta * base + alpha * multiply(*factors); of narrow floats rounded once, at the end."""
    dtype, wide = base._dtype, base._dtype.compute
    if dtype not in (bfloat16, float16):
        return _combined(base, multiply(*factors), beta, alpha, label)
    with autocast_off():
        product = multiply(*(cast(x, wide) for x in factors))
        total = _combined(cast(base, wide), product, beta, alpha, "AddBackward0")
        return apply(ops.cast, (total, dtype), label=label)


def _check_dtypes(base: Tensor, first: Tensor, second: Tensor) -> None:
    for name, x in (("self", base), ("mat1", first)):
        if x._dtype is not second._dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {x._dtype.scalar_name} and "
                f"{second._dtype.scalar_name}"
            )


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    input, mat1, mat2 = product_operands(input, mat1, mat2)
    _check_dtypes(input, mat1, mat2)
    return _sum_with(input, mm, (mat1, mat2), beta, alpha, "AddmmBackward0")


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if not input._dtype is mat._dtype is vec._dtype:
        have = ", ".join(x._dtype.scalar_name for x in (input, mat))
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {have}, and "
            f"{vec._dtype.scalar_name}"
        )
    return _sum_with(input, mv, (mat, vec), beta, alpha, "AddmvBackward0")


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _combined(input, outer(vec1, vec2), beta, alpha, "AddrBackward0")


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    input, batch1, batch2 = product_operands(input, batch1, batch2)
    names = [cpp_name(x._dtype) for x in (input, batch1, batch2)]
    if len(set(names)) > 1:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: "
            f"{names[2]}"
        )
    return _sum_with(input, bmm, (batch1, batch2), beta, alpha, "BaddbmmBackward0")


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    input, batch1, batch2 = product_operands(input, batch1, batch2)
    _check_dtypes(input, batch1, batch2)
    return _sum_with(input, _summed_bmm, (batch1, batch2), beta, alpha, "AddbmmBackward0")


def _summed_bmm(batch1: Tensor, batch2: Tensor) -> Tensor:
    product = bmm(batch1, batch2)
    return product.sum(0, dtype=product._dtype)


def _int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices of int8 (the left one may be of uint8), summed in int32."""
    for position, (name, value) in enumerate((("self", input), ("mat2", mat2)), 1):
        need_tensor("_int_mm", name, position, value)
        if value.dim() != 2:
            raise RuntimeError(
                f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {value.dim()}"
            )
    wrong = ""
    if input._dtype not in (int8, uint8):
        wrong = f"Expected self dtype to be int8 or uint8 but got {cpp_name(input._dtype)}"
    elif mat2._dtype is not int8:
        wrong = f"Expected mat2 dtype to be of type int8 but got {cpp_name(mat2._dtype)}"
    elif input._shape[1] != mat2._shape[0]:
        have = f"{input._shape[1]} and {mat2._shape[0]}"
        wrong = f"self.size(1) needs to match mat2.size(0) but got {have}"
    if wrong:
        raise RuntimeError(f"int_mm_out_cpu: {wrong}")
    return matmul(cast(input, int32), cast(mat2, int32))


def chain_matmul(*matrices: Tensor) -> Tensor:
    result = matrices[0]
    for matrix in matrices[1:]:
        result = mm(result, matrix)
    return result


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    if isinstance(dims, int):
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    for x, y in zip(left, right, strict=True):  # a dimension of size 1 meets any size
        if a._shape[x] == 1 != b._shape[y]:
            b = b.sum(y, keepdim=True)
        elif b._shape[y] == 1 != a._shape[x]:
            a = a.sum(x, keepdim=True)
        if a._shape[x] != b._shape[y]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a._shape[x]} in dim {x} "
                f"and second has size {b._shape[y]} in dim {y}"
            )
    keep_a = [d for d in range(a.dim()) if d not in left]
    keep_b = [d for d in range(b.dim()) if d not in right]
    shared = math.prod(a._shape[d] for d in left)
    rows = reshape(permute(a, keep_a + left), (math.prod(a._shape[d] for d in keep_a), shared))
    columns = reshape(permute(b, right + keep_b), (shared, math.prod(b._shape[d] for d in keep_b)))
    shape = [a._shape[d] for d in keep_a] + [b._shape[d] for d in keep_b]
    return reshape(matmul(rows, columns), shape)


def trace(input: Tensor) -> Tensor:
    if input.dim() != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim "
                           f"{input.dim()}")  # fmt: skip
    return diagonal(input).sum()


def cross(input: Tensor, other: Tensor, dim: int = -1, *, out: Tensor | None = None) -> Tensor:
    """linalg.cross: vectors of three elements along dim."""
    if input.dim() != other.dim():
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    sizes = [x._shape[wrap_dim(dim, x.dim())] if x.dim() else 1 for x in (input, other)]
    if sizes != [3, 3]:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    if DEVICES.used:  # here, where they are no numbers yet, which go with any device
        check_devices((input, other))
    a = [input.select(dim, i) for i in range(3)]
    b = [other.select(dim, i) for i in range(3)]
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    at = dim if dim >= 0 else dim + max(input.dim(), other.dim())
    return finish(apply(ops.cat, ([unsqueeze(p, at) for p in parts], at)), out)


def kron(input: Tensor, other: Tensor) -> Tensor:
    ndim = max(input.dim(), other.dim())
    a = reshape(input, (*(1,) * (ndim - input.dim()), *input._shape))
    b = reshape(other, (*(1,) * (ndim - other.dim()), *other._shape))
    left = reshape(a, [n for s in a._shape for n in (s, 1)])
    right = reshape(b, [n for s in b._shape for n in (1, s)])
    shape = [x * y for x, y in zip(a._shape, b._shape, strict=True)]
    return reshape(apply(ops.mul, (left, right)), shape)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    """The distance of each row of x1 from each row of x2."""
    if x1.dim() < 2 or x2.dim() < 2:
        which, x = ("X1", x1) if x1.dim() < 2 else ("X2", x2)
        raise RuntimeError(f"cdist only supports at least 2D tensors, {which} got: {x.dim()}D")
    if x1._dtype is not x2._dtype and x1._dtype.kind == x2._dtype.kind == "float":
        raise RuntimeError(
            f"expected scalar type {x1._dtype.scalar_name} but found {x2._dtype.scalar_name}"
        )
    if x1._dtype.is_complex:
        shown = cpp_name(x1._dtype)
        raise RuntimeError(f"cdist only supports floating-point dtypes, X1 got: {shown}")
    if x1._shape[-1] != x2._shape[-1]:
        raise RuntimeError(
            "X1 and X2 must have the same number of columns. "
            f"X1: {x1._shape[-1]} X2: {x2._shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    return vector_norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The norm of the difference."""
    need_tensor("dist", "input", 1, input)
    need_tensor("dist", "other", 2, other)
    return vector_norm(sub(input, other), p)


# Inverse, determinant, powers --------------------------------------------------------------


def inverse(input: Tensor) -> Tensor:
    return apply(ops.inverse, (input,))


def det(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    return finish(apply(ops.det, (input,)), out)


def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The matrix times itself n times; powers of the inverse for n < 0."""
    if input.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_power: The input tensor A must have at least 2 dimensions."
        )
    if input._shape[-1] != input._shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{input._shape[-2]} by {input._shape[-1]} matrices"
        )
    if n == 0:
        one = eye(input._shape[-1], dtype=input._dtype).expand(input._shape)
        return finish(brought(linked(one.clone(), input), input), out)
    base, result = inverse(input) if n < 0 else input, None
    for bit in reversed(bin(abs(n))[2:]):
        if bit == "1":
            result = base if result is None else matmul(result, base)
        base = matmul(base, base)
    assert result is not None
    return finish(result if result is not input else input.clone(), out)


FUNCTIONS: dict[str, Callable] = {
    **by_name(
        matmul, mm, bmm, mv, dot, inner, outer, addmm, addmv, addr, baddbmm, addbmm, tensordot,
        trace, kron, cdist, chain_matmul, _int_mm, dist, det, matrix_power, vdot, cross,
    ),
    "ger": outer,
}  # fmt: skip


def _operator(self: Tensor, other: Any) -> Any:
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


METHODS = {
    n: f for n, f in FUNCTIONS.items() if n not in ("tensordot", "cdist", "chain_matmul", "_int_mm")
}
METHODS["__matmul__"] = _operator
LINALG: dict[str, Callable] = {
    "vector_norm": vector_norm, "matmul": matmul, "det": det, "cross": cross,
    "matrix_power": matrix_power, "diagonal": diagonal,
}  # fmt: skip

for _name in ("addmm", "addmv", "addr", "baddbmm", "addbmm"):
    METHODS[f"{_name}_"] = in_place_form(FUNCTIONS[_name])
