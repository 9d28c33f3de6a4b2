"""Products of matrices with PyTorch's broadcasting, all through the primitive `dot`.

[folding] Leading dims of the left operand are folded into its rows when the right operand is one
matrix: one large product instead of many small ones, and the same bits (one chain per element).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Call, Value
from rushlight.ops import reference as ref
from rushlight.ops.binary import add, eq, mul
from rushlight.ops.build import (
    conj_of,
    expand_to,
    like,
    reshape_to,
    sum_to_shape,
    swap_last,
    to_dtype,
)
from rushlight.ops.composite import composite
from rushlight.ops.indexed import dot
from rushlight.ops.meta import Meta
from rushlight.ops.movement import must_expand, permute, reshape
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import (
    Shape,
    broadcast_shapes,
    common_dtype,
    is_static,
    refuse_bool,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.select import where


def _folded(lead: Sequence[Any]) -> Any:
    total: Any = 1
    for size in lead:
        total = total * size
    return total


def batched_dot(a: Any, b: Any) -> Any:
    """a[..., M, K] @ b[..., K, N], both at least 2-D; leading dims broadcast."""
    if b.ndim == 2:
        rows = reshape_to(a, a.shape, (_folded(a.shape[:-1]), a.shape[-1]))
        product = dot(rows, b)
        return reshape_to(product, product.shape, (*a.shape[:-1], b.shape[-1]))
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = expand_to(a, a.shape, (*lead, *a.shape[-2:]))
    b = expand_to(b, b.shape, (*lead, *b.shape[-2:]))
    if len(lead) > 1:
        count = _folded(lead)
        flat = dot(reshape(a, (count, *a.shape[-2:])), reshape(b, (count, *b.shape[-2:])))
        return reshape(flat, (*lead, a.shape[-2], b.shape[-1]))
    return dot(a, b)


def matmul_decompose(a: Any, b: Any) -> Any:
    """1-D operands count as a row (left) or a column (right)."""
    rows = a if a.ndim > 1 else reshape(a, (1, *a.shape))
    columns = b if b.ndim > 1 else reshape(b, (*b.shape, 1))
    product = batched_dot(rows, columns)
    return reshape_to(product, product.shape, _matmul_shape(a.shape, b.shape))


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    lead = broadcast_shapes(a[:-2], b[:-2]) if len(a) > 1 or len(b) > 1 else ()
    return (*lead, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def check_matmul(call: Call) -> None:
    refuse_bool(call)
    a, b = call["a"].shape, call["b"].shape
    if not a or not b:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(a)}D and {len(b)}D"
        )
    have, want = a[-1], b[-2] if len(b) > 1 else b[-1]
    if not (is_static(have) and is_static(want)) or have == want:
        return
    if len(a) == 1 and len(b) == 1:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{have}] and src [{want}] to have the same "
            f"number of elements, but got {have} and {want} elements respectively"
        )
    if len(b) == 1:
        raise RuntimeError(f"size mismatch, got input ({_text(a)}), vec ({_text(b)})")
    if len(b) > 2:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: "
            f"[{_folded(b[:-2])}, {have}] but got: [{_folded(b[:-2])}, {want}]."
        )
    rows = math.prod(a[:-1]) if all(map(is_static, a)) else 1
    raise RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({rows}x{have} and {want}x{b[-1]})"
    )


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def matmul_grad(g: Any, a: Any, b: Any, meta: Meta) -> tuple:
    """Two products. The batch is summed inside the product where b is one matrix."""
    a_shape, b_shape = meta.shape("a"), meta.shape("b")
    if len(a_shape) == 1 or len(b_shape) == 1:
        rows = a_shape if len(a_shape) > 1 else (1, *a_shape)
        columns = b_shape if len(b_shape) > 1 else (*b_shape, 1)
        lead = broadcast_shapes(rows[:-2], columns[:-2])
        g = reshape(g, (*lead, rows[-2], columns[-1]))
        by_a, by_b = matrix_grads(g, reshape_to(a, a_shape, rows), reshape_to(b, b_shape, columns),
                                  meta)  # fmt: skip
        back_a = by_a if by_a is None else reshape_to(by_a, rows, a_shape)
        return back_a, by_b if by_b is None else reshape_to(by_b, columns, b_shape)
    return matrix_grads(g, a, b, meta)


def matrix_grads(g: Any, a: Any, b: Any, meta: Meta) -> tuple:
    by_a = by_b = None
    if meta.needs("a"):
        full = batched_dot(g, swap_last(conj_of(b), b.ndim))
        by_a = sum_to_shape(full, full.shape, a.shape)
    if meta.needs("b"):
        a = conj_of(a)
        if b.ndim == 2:
            count = _folded(a.shape[:-1])
            rows = reshape_to(a, a.shape, (count, a.shape[-1]))
            by_b = dot(permute(rows, (1, 0)), reshape_to(g, g.shape, (count, g.shape[-1])))
        else:
            full = batched_dot(swap_last(a, a.ndim), g)
            by_b = sum_to_shape(full, full.shape, b.shape)
    return by_a, by_b


MATMUL = (
    ((3, 4), (4, 2)), ((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)),
    ((3, 4), (2, 4, 5)), ((0, 4), (4, 2)), ((3, 0), (0, 2)),
)  # fmt: skip


def matmul_samples(rng: Rng) -> list[Sample]:
    return [Sample((array(rng, *a), array(rng, *b))) for a, b in MATMUL]


matmul = composite(
    "matmul",
    "The matrix product; 1-D operands are vectors, leading dims broadcast.",
    (Arg("a"), Arg("b")),
    matmul_decompose,
    np.matmul,
    matmul_grad,
    shape=lambda call: _matmul_shape(call["a"].shape, call["b"].shape),
    dtype=common_dtype,
    compute_f32=False,
    torch=("torch.matmul", "Tensor.matmul"),
    check=check_matmul,
    samples=matmul_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 3))), {}, RuntimeError, "2x3 and 2x3"),
        ErrorSample((np.ones(2), np.ones(3)), {}, RuntimeError, "inconsistent tensor size"),
        ErrorSample((np.float64(1), np.ones(3)), {}, RuntimeError, "at least 1D"),
    ),
)


def linear_decompose(input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002
    columns = permute(weight, (1, 0)) if weight.ndim == 2 else weight
    if bias is None:
        return matmul_decompose(input, columns)
    wide = input.dtype.compute  # one rounding, after the sum
    product = matmul_decompose(to_dtype(input, wide), to_dtype(columns, wide))
    return to_dtype(add(product, to_dtype(bias, wide)), input.dtype)


def linear_grad(g: Any, input: Any, weight: Any, meta: Meta) -> tuple:  # noqa: A002
    """input: g @ weight. weight: g^T @ input over all rows at once. bias: the sum of rows."""
    if meta.ndim("weight") == 1:
        return _vector_linear_grad(g, input, weight, meta)
    count, features = _folded(meta.out_shape[:-1]), meta.out_shape[-1]
    shape = meta.shape("input")
    rows = reshape_to(g, meta.out_shape, (count, features))
    by_input = by_weight = by_bias = None
    if meta.needs("input"):
        by_input = reshape_to(dot(rows, conj_of(weight)), (count, shape[-1]), shape)
    if meta.needs("weight"):
        flat = reshape_to(conj_of(input), shape, (count, shape[-1]))
        by_weight = dot(permute(rows, (1, 0)), flat)
    if meta.needs("bias"):
        usual = meta.shape("bias") == (features,)
        by_bias = (reduce_sum(rows, (0,)) if usual
                   else sum_to_shape(g, meta.out_shape, meta.shape("bias")))  # fmt: skip
    return by_input, by_weight, by_bias


def _vector_linear_grad(g: Any, x: Any, weight: Any, meta: Meta) -> tuple:
    outer = reshape(g, (*meta.out_shape, 1))
    by_bias = sum_to_shape(g, meta.out_shape, meta.shape("bias")) if meta.needs("bias") else None
    return mul(outer, conj_of(weight)), mul(outer, conj_of(x)), by_bias


def check_linear(call: Call) -> None:
    have, want = call["input"].shape, call["weight"].shape
    if not have or not want:
        raise RuntimeError("linear(): input and weight need at least 1 dimension")
    if is_static(have[-1]) and is_static(want[-1]) and have[-1] != want[-1]:
        rows = math.prod(have[:-1]) if all(map(is_static, have)) else 1
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({rows}x{have[-1]} and {want[-1]}x{want[0]})"
        )
    refuse_bool(call)
    if call["bias"] is not None:
        must_expand(call["bias"].shape, linear_shape(call))


def linear_shape(call: Call) -> Shape:
    return (*call["input"].shape[:-1], *call["weight"].shape[:-1])


def linear_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    product = np.matmul(x, weight.T)
    return product if bias is None else product + bias


linear = composite(
    "linear",
    "input @ weight.T + bias.",
    (Arg("input"), Arg("weight"), Arg("bias", optional=True)),
    linear_decompose,
    linear_reference,
    linear_grad,
    shape=linear_shape,
    dtype=common_dtype,
    compute_f32=False,
    torch=("nn.functional.linear",),
    check=check_linear,
    samples=lambda rng: [
        Sample((array(rng, 3, 4), array(rng, 5, 4), array(rng, 5))),
        Sample((array(rng, 2, 3, 4), array(rng, 2, 4), None)),
        Sample((array(rng, 4), array(rng, 2, 4), array(rng, 2))),
        Sample((array(rng, 3, 4), array(rng, 4), array(rng))),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((4, 5))), {}, RuntimeError, "2x3 and 5x4"),
    ),
)


def _product(name: str, doc: str, ndims: tuple[int, int], text: str, shapes: tuple) -> Any:
    """bmm, mm, mv: matmul with fixed numbers of dims."""

    def check(call: Call) -> None:
        if (call["a"].ndim, call["b"].ndim) != ndims:
            raise RuntimeError(text)
        check_matmul(call)

    return composite(
        name,
        doc,
        (Arg("a"), Arg("b")),
        matmul_decompose,
        np.matmul,
        matmul_grad,
        shape=lambda call: _matmul_shape(call["a"].shape, call["b"].shape),
        dtype=common_dtype,
        compute_f32=False,
        torch=(f"torch.{name}", f"Tensor.{name}"),
        check=check,
        samples=lambda rng: [Sample((array(rng, *shapes[0]), array(rng, *shapes[1])))],
        error_samples=(ErrorSample((np.ones((1, 1, 1, 1)), np.ones(1)), {}, RuntimeError, text),),
    )


mm = _product("mm", "The product of two matrices.", (2, 2), "self must be a matrix",
              ((3, 4), (4, 2)))  # fmt: skip
bmm = _product("bmm", "Products of two batches of matrices.", (3, 3),
               "batch1 must be a 3D tensor", ((2, 3, 4), (2, 4, 5)))  # fmt: skip
mv = _product("mv", "A matrix times a vector.", (2, 1), "vector + matrix @ vector expected, got",
              ((3, 4), (4,)))  # fmt: skip


def outer_decompose(a: Any, b: Any) -> Any:
    return mul(reshape(a, (*a.shape, 1)), b)


outer = composite(
    "outer",
    "All products of two vectors' elements.",
    (Arg("a"), Arg("b")),
    outer_decompose,
    np.outer,
    shape=lambda call: (*call["a"].shape, *call["b"].shape),
    dtype=common_dtype,
    compute_f32=False,
    torch=("torch.outer", "Tensor.outer"),
    samples=lambda rng: [Sample((array(rng, 3), array(rng, 4)))],
)


def addmm_decompose(input: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:  # noqa: A002
    """With beta 0 the input does not count, NaN or not."""
    beta, alpha = like(beta, input.dtype), like(alpha, input.dtype)
    product = matmul_decompose(a, b) * alpha
    return add(product, where(eq(beta, 0), 0, input * beta))


def addmm_shape(call: Call) -> Shape:
    shape = _matmul_shape(call["a"].shape, call["b"].shape)
    broadcast_shapes(call["input"].shape, shape)
    return shape


def _added(name: str, doc: str, shapes: tuple) -> Any:
    """addmm, addmv, baddbmm."""
    return composite(
        name,
        doc,
        (Arg("input"), Arg("a"), Arg("b"), Value("beta", 1), Value("alpha", 1)),
        addmm_decompose,
        lambda x, a, b, beta, alpha: (
            ref.factor(beta, x) * x + ref.factor(alpha, x) * np.matmul(a, b)
        ),
        shape=addmm_shape,
        dtype=lambda call: call["input"].dtype,
        torch=(f"torch.{name}", f"Tensor.{name}", f"Tensor.{name}_"),
        check=check_matmul,
        samples=lambda rng: [Sample((*(array(rng, *s) for s in shapes), 0.5, 2.0))],
    )


addmm = _added("addmm", "beta * input + alpha * (a @ b).", ((3, 2), (3, 4), (4, 2)))
addmv = _added("addmv", "beta * input + alpha * (a @ b), b a vector.", ((3,), (3, 4), (4,)))
baddbmm = _added("baddbmm", "beta * input + alpha * (a @ b), batches.",
                 ((2, 3, 2), (2, 3, 4), (2, 4, 2)))  # fmt: skip
