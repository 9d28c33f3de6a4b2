"""Linear algebra of whole matrices: run on the host by the record's reference (LAPACK).

Operands are [..., N, N] or [..., M, N]. An op of several results has one record; `part` says which
result it gives. Gradients are graphs of other records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, int32
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, OpDef, op
from rushlight.ir.symint_math import minimum as size_minimum
from rushlight.ops import lapack
from rushlight.ops.binary import add, eq, mul, sub
from rushlight.ops.build import conj_of, iota_along, real_of, swap_last, to_dtype, zeros
from rushlight.ops.complex import complex_, imag
from rushlight.ops.diagonals import tril, triu
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.products import matmul
from rushlight.ops.rules import (
    Shape,
    broadcast_shapes,
    common_dtype,
    inexact_dtype,
    is_static,
    no_short_floats,
    operand_shape,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.select import where


def t(x: Any) -> Any:
    """The transpose of the last two dims."""
    return swap_last(x, x.ndim)


def h(x: Any) -> Any:
    """The conjugate transpose of the last two dims."""
    return t(conj_of(x))


def well(rng: Rng, *shape: int) -> np.ndarray:
    """A matrix far from singular, with eigenvalues apart."""
    return array(rng, *shape) * 0.3 + np.diag(np.arange(2, shape[-1] + 2.0))


def symmetric(rng: Rng, *shape: int) -> np.ndarray:
    x = well(rng, *shape)
    return (x + np.swapaxes(x, -1, -2)) / 2


def check_square(call: Call) -> None:
    shape = call.src[0].shape
    if len(shape) < 2:
        raise RuntimeError(
            f"linalg.{call.op.name}: The input tensor A must have at least 2 dimensions."
        )
    if shape[-1] != shape[-2] and is_static(shape[-1]) and is_static(shape[-2]):
        raise RuntimeError(
            f"linalg.{call.op.name}: A must be batches of square matrices, but they are "
            f"{shape[-2]} by {shape[-1]} matrices"
        )


def host_op(
    name: str, doc: str, inputs: tuple, reference: Callable, grad: Any, **fields: Any
) -> OpDef:
    fields.setdefault("shape", operand_shape)
    fields.setdefault("dtype", inexact_dtype)
    fields["check"] = no_short_floats(name, fields.get("check", check_square))
    return op(
        name=name, doc=doc, inputs=inputs, kind="host", reference=reference, grad=grad, **fields
    )


SQUARE_ERRORS = (
    ErrorSample((np.ones(3),), {}, RuntimeError, "at least 2 dim"),
    ErrorSample((np.ones((2, 3)),), {}, RuntimeError, "square matrices"),
)
inverse = host_op(
    "inverse",
    "The inverse of each matrix.",
    (Arg("x"), Attr("check", True)),
    lapack.inverse,
    lambda g, out: (-matmul(h(out), matmul(g, h(out))),),
    may_refuse=True,
    torch=("torch.inverse", "Tensor.inverse", "torch.linalg.inv"),
    samples=lambda rng: [Sample((well(rng, 3, 3),)), Sample((well(rng, 2, 2, 2),))],
    error_samples=SQUARE_ERRORS,
)


def solve_grad(g: Any, a: Any, out: Any, meta: Meta) -> tuple:
    by_b = solve(h(a), g)
    return -matmul(by_b, h(out)) if meta.needs("a") else None, by_b


def solve_shape(call: Call) -> Shape:
    a, b = call["a"].shape, call["b"].shape
    if len(b) < 2:
        raise RuntimeError("solve: b must have at least 2 dims (the public function adds one)")
    return (*broadcast_shapes(a[:-2], b[:-2]), *b[-2:])


solve = host_op(
    "solve",
    "x with a @ x = b.",
    (Arg("a"), Arg("b"), Attr("check", True)),
    lapack.solve,
    solve_grad,
    shape=solve_shape,
    dtype=common_dtype,
    may_refuse=True,
    samples=lambda rng: [
        Sample((well(rng, 3, 3), array(rng, 3, 2))),
        Sample((well(rng, 2, 2, 2), array(rng, 2, 2, 1))),
    ],
)


def cholesky_grad(g: Any, out: Any) -> tuple:
    """With L L^H = A: half of L^-H M L^-1, M the lower triangle of L^H g, mirrored."""
    back = inverse(out)
    middle = matmul(h(out), tril(g))
    middle = add(tril(middle, 0), h(tril(middle, -1)))
    return (mul(matmul(h(back), matmul(middle, back)), 0.5),)


cholesky = host_op(
    "cholesky",
    "The lower L with L @ L^H = x, for a Hermitian positive x.",
    (Arg("x"), Attr("check", True)),
    lapack.cholesky,
    cholesky_grad,
    may_refuse=True,
    torch=("torch.linalg.cholesky", "torch.cholesky"),
    samples=lambda rng: [Sample((symmetric(rng, 3, 3),), skip=("symmetric",))],
    error_samples=SQUARE_ERRORS,
)


cholesky_info = host_op(
    "cholesky_info",
    "The order of the first minor that is not positive; 0 where all are.",
    (Arg("x"),),
    lapack.bad_minor,
    NotDifferentiable("the output is a whole number"),
    shape=lambda call: call["x"].shape[:-2],
    dtype=lambda call: int32,
    samples=lambda rng: [Sample((symmetric(rng, 3, 3),)), Sample((-symmetric(rng, 2, 2, 2),))],
    error_samples=SQUARE_ERRORS,
)


# [repeated values] The gradient of eigenvectors divides by the gaps between eigenvalues. A function
# of the matrix (exp, a projector) has a gradient where values repeat, too: what is multiplied by
# the gap's inverse is then the difference of that function at the two values. So where a gradient
# may be asked for, repeated values are given as neighbours `APART` of the largest apart, and the
# gradient divides by just these gaps: values change in digit 9 (float64), gradients are good to 6.
def _least_gap(values: np.ndarray) -> np.ndarray:
    largest = np.abs(values).max(-1, keepdims=True, initial=0)
    least = np.sqrt(np.finfo(values.dtype).eps) / 16 * np.where(largest == 0, 1, largest)
    return least.astype(values.dtype)


def apart(values: np.ndarray) -> np.ndarray:
    """Rising values, each at least the least gap above the one before; others as they were."""
    steps = np.arange(values.shape[-1]) * _least_gap(values)
    lowered = values - steps
    best = np.maximum.accumulate(lowered, -1)
    return np.where(best > lowered, best + steps, values).astype(values.dtype)


def apart_from_zero(falling: np.ndarray) -> np.ndarray:
    """The same for singular values: they fall, and the last is not 0."""
    rising = falling[..., ::-1]
    if not rising.shape[-1]:
        return falling
    lifted = np.maximum(rising, _least_gap(rising))
    return np.ascontiguousarray(apart(lifted)[..., ::-1])


def on_diagonal(size: Any) -> Any:
    return eq(iota_along(2, 0, size), iota_along(2, 1, size))


def _gaps(values: Any) -> Any:
    """1 / (w_j - w_i) off the diagonal, 0 on it."""
    columns = reshape(values, (*values.shape[:-1], 1, values.shape[-1]))
    rows = reshape(values, (*values.shape, 1))
    on = on_diagonal(values.shape[-1])
    return where(on, 0.0, where(on, 1.0, sub(columns, rows)) ** -1.0)


def eigh_grad(g: Any, x: Any, part: str, upper: bool) -> tuple:
    vectors = eigh(x, part="vectors", upper=upper)
    if part != "vectors":
        scaled = mul(vectors, to_dtype(reshape(g, (*g.shape[:-1], 1, g.shape[-1])), x.dtype))
        return (matmul(scaled, h(vectors)),)
    gaps = to_dtype(_gaps(eigh(x, part="apart", upper=upper)), x.dtype)
    inner = mul(matmul(h(vectors), g), gaps)
    inner = mul(add(inner, h(inner)), 0.5)
    return (matmul(vectors, matmul(inner, h(vectors))),)


def _size_dtype(*vectors: str) -> Callable[[Call], DType]:
    """Sizes of complex matrices are real; `vectors`: the parts that are not sizes."""

    def rule(call: Call) -> DType:
        dtype = inexact_dtype(call)
        return dtype if call["part"] in vectors else dtype.to_real()

    return rule


def eigh_reference(x: np.ndarray, part: str, upper: bool) -> np.ndarray:
    values, vectors = np.linalg.eigh(x, "U" if upper else "L")
    return {"values": values, "vectors": vectors}[part] if part != "apart" else apart(values)


eigh = host_op(
    "eigh",
    "Eigenvalues (rising) or eigenvectors (columns) of a Hermitian matrix, from one triangle; "
    "`apart`: the values with none repeated. See [repeated values].",
    (Arg("x"), Attr("part", "values"), Attr("upper", False)),
    eigh_reference,
    eigh_grad,
    shape=lambda call: call["x"].shape[: None if call["part"] == "vectors" else -1],
    dtype=_size_dtype("vectors"),
    samples=lambda rng: [
        Sample((symmetric(rng, 3, 3),), {"part": part}, skip=("symmetric",))
        for part in ("values", "vectors", "apart")
    ],
)


def svd_shape(call: Call) -> Shape:
    *lead, m, n = call["x"].shape
    k = size_minimum(m, n)
    line = (*lead, k)
    return {"u": (*lead, m, k), "s": line, "apart": line, "vh": (*lead, k, n)}[call["part"]]


def svd_reference(x: np.ndarray, part: str) -> np.ndarray:
    u, s, vh = lapack.svd(x)
    return {"u": u, "s": s, "vh": vh}[part] if part != "apart" else apart_from_zero(s)


def svd_grad(g: Any, x: Any, part: str) -> tuple:
    """Townsend's formulas for a reduced SVD with distinct singular values. Complex vectors turn by
    phases that the factors share; the turn of both is counted with u."""
    u, sizes, vh = (svd(x, part=p) for p in ("u", "apart", "vh"))
    row = reshape(sizes, (*sizes.shape[:-1], 1, sizes.shape[-1]))
    if part in ("s", "apart"):
        return (matmul(mul(u, to_dtype(reshape(g, row.shape), x.dtype)), vh),)
    gaps = to_dtype(_gaps(mul(sizes, sizes)), x.dtype)
    s = to_dtype(sizes, x.dtype)
    row, column = to_dtype(row, x.dtype), reshape(s, (*s.shape, 1))
    if part == "u":
        skew = matmul(h(u), g)
        skew = sub(skew, h(skew))
        inner = mul(mul(gaps, skew), row)
        if x.dtype.is_complex:
            inner = add(inner, where(on_diagonal(s.shape[-1]), mul(skew, row**-1.0 * 0.5), 0.0))
        out = matmul(matmul(u, inner), vh)
        rest = sub(g, matmul(u, matmul(h(u), g)))
        return (add(out, matmul(mul(rest, row**-1.0), vh)),)
    skew = matmul(vh, h(g))
    inner = mul(column, mul(gaps, sub(skew, h(skew))))
    out = matmul(u, matmul(inner, vh))
    rest = sub(g, matmul(matmul(g, h(vh)), vh))
    return (add(out, matmul(u, mul(column**-1.0, rest))),)


def check_matrix(call: Call) -> None:
    if call.src[0].ndim < 2:
        raise RuntimeError(
            f"linalg.{call.op.name}: The input tensor A must have at least 2 dimensions."
        )


svd = host_op(
    "svd",
    "u, the singular values s (falling), or vh, with u @ diag(s) @ vh = x (reduced); `apart`: the "
    "values with none repeated and none 0. See [repeated values].",
    (Arg("x"), Attr("part", "s")),
    svd_reference,
    svd_grad,
    shape=svd_shape,
    dtype=_size_dtype("u", "vh"),
    check=check_matrix,
    samples=lambda rng: [
        Sample((well(rng, 4, 4)[:rows, :columns],), {"part": part})
        for part in ("u", "s", "vh", "apart")
        for rows, columns in ((4, 3), (3, 4), (3, 3))
    ],
    error_samples=SQUARE_ERRORS[:1],
)


def qr_shape(call: Call) -> Shape:
    *lead, m, n = call["x"].shape
    k = size_minimum(m, n)
    return (*lead, m, k) if call["part"] == "q" else (*lead, k, n)


def _mirrored(x: Any) -> Any:
    """The upper triangle, mirrored to the lower one; the diagonal is real."""
    upper = triu(x, 1)
    diagonal = where(on_diagonal(x.shape[-1]), to_dtype(real_of(x), x.dtype), 0.0)
    return add(diagonal, add(upper, h(upper)))


def qr_grad(g: Any, x: Any, part: str) -> tuple:
    """For M >= N: (g_q + Q mirrored(m)) R^-H with m = g_r R^H - Q^H g_q."""
    q, r = qr(x, part="q"), qr(x, part="r")
    back = h(inverse(r))
    if part == "q":
        m = -matmul(h(q), g)
        return (matmul(add(g, matmul(q, _mirrored(m))), back),)
    m = matmul(triu(g), h(r))
    return (matmul(matmul(q, _mirrored(m)), back),)


qr = host_op(
    "qr",
    "Orthonormal q or upper triangular r, with q @ r = x (reduced).",
    (Arg("x"), Attr("part", "q")),
    lambda x, part: np.linalg.qr(x)[0 if part == "q" else 1],
    qr_grad,
    shape=qr_shape,
    check=check_matrix,
    samples=lambda rng: [
        Sample((well(rng, 4, 4)[:, :columns],), {"part": part})
        for part in ("q", "r")
        for columns in (4, 3)
    ],
    error_samples=SQUARE_ERRORS[:1],
)


def _number_shape(call: Call) -> Shape:
    return call["x"].shape[:-2]


def matrix_share(g: Any) -> Any:
    return reshape(g, (*g.shape, 1, 1))


det = host_op(
    "det",
    "The determinant of each matrix.",
    (Arg("x"),),
    np.linalg.det,
    lambda g, x, out: (mul(matrix_share(mul(g, conj_of(out))), h(inverse(x))),),
    shape=_number_shape,
    torch=("torch.det", "Tensor.det", "torch.linalg.det"),
    samples=lambda rng: [Sample((well(rng, 3, 3),)), Sample((well(rng, 2, 2, 2),))],
    error_samples=SQUARE_ERRORS,
)


def sign_grad(g: Any, x: Any, out: Any, meta: Meta) -> tuple:
    """Only a complex sign changes: it turns by the imaginary part of log det."""
    if not meta.dtype("x").is_complex:
        return (zeros(meta.shape("x"), meta.dtype("x")),)
    turn = imag(mul(conj_of(g), out))
    share = complex_(mul(turn, 0.0), -turn)
    return (mul(matrix_share(share), h(inverse(x))),)


slogdet_sign = host_op(
    "slogdet_sign",
    "The sign of the determinant.",
    (Arg("x"),),
    lambda x: np.linalg.slogdet(x)[0],
    sign_grad,
    shape=_number_shape,
    samples=lambda rng: [Sample((well(rng, 3, 3),))],
    error_samples=SQUARE_ERRORS,
)
logabsdet = host_op(
    "logabsdet",
    "log of the size of the determinant.",
    (Arg("x"),),
    lambda x: np.linalg.slogdet(x)[1],
    lambda g, x: (mul(to_dtype(matrix_share(g), x.dtype), h(inverse(x))),),
    shape=_number_shape,
    dtype=lambda call: inexact_dtype(call).to_real(),
    samples=lambda rng: [Sample((well(rng, 3, 3),)), Sample((well(rng, 2, 2, 2),))],
    error_samples=SQUARE_ERRORS,
)
