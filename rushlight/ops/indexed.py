"""Primitives that follow indices: gather_nd, scatter_nd, argsort_, iota; and dot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_, float32, int64, uint8
from rushlight.ir.opdef import Arg, Attr, Call, Dim, NotDifferentiable, Size, op
from rushlight.ops.binary import div, eq, logical_and, mul
from rushlight.ops.build import conj_of, full, swap_last, zeros
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.rules import (
    Shape,
    broadcast_shapes,
    common_dtype,
    dtype_attr,
    int64_dtype,
    is_static,
    operand_dtype,
    operand_shape,
    replace_dim,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, whole
from rushlight.ops.select import cast, where

NEVER = (1 << 63) - 1  # after every number of an element
SCATTER_KINDS = ("set", "sum", "prod", "max", "min")


def update_shape(call: Call) -> Shape:
    """The indices' common shape, then the dimensions that are not indexed."""
    shape = broadcast_shapes(*(node.shape for node in call["indices"]))
    return (*shape, *call["x"].shape[len(call["indices"]) :])


def check_indices(call: Call) -> None:
    indices, x = call["indices"], call["x"]
    if not 1 <= len(indices) <= x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {len(indices)})")
    for node in indices:
        if node.dtype is not int64:
            raise IndexError(f"{call.op.name}: indices must be int64, got {node.dtype.name}")
        if node.shape != indices[0].shape and all(map(is_static, node.shape + indices[0].shape)):
            raise IndexError(
                f"shape mismatch: indexing tensors could not be broadcast together with shapes "
                f"{list(indices[0].shape)}, {list(node.shape)}"
            )


def gather_grad(g: Any, indices: Any, meta: Meta) -> tuple:
    return (scatter_nd(zeros(meta.shape("x"), meta.dtype("x")), g, indices, kind="sum"),)


def gather_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 5, 3), [whole(rng, 4)])),
        Sample((array(rng, 5, 6, 2), [whole(rng, 2, 3), whole(rng, 2, 3, high=6)])),
        Sample((array(rng, 5), [whole(rng)])),
        Sample((array(rng, 5, 2), [whole(rng, 0)])),
    ]


gather_nd = op(
    name="gather_nd",
    doc="x[i0, i1, ...] for index tensors of one shape: non-negative and in range.",
    inputs=(Arg("x"), Arg("indices", variadic=True)),
    shape=update_shape,
    dtype=operand_dtype,
    kind="gather",
    reference=lambda x, indices: x[tuple(indices)],
    grad=gather_grad,
    check=check_indices,
    samples=gather_samples,
    error_samples=(
        ErrorSample((np.ones(3), [np.ones(2)]), {}, IndexError, "must be int64"),
        ErrorSample((np.ones(3), [np.zeros(2, np.int64)] * 2), {}, IndexError, "too many"),
    ),
)


def check_scatter(call: Call) -> None:
    check_indices(call)
    if call["x"].dtype.is_complex and call["kind"] not in ("set", "sum"):
        raise NotImplementedError(f"scatter_nd: {call['kind']} of complex numbers")
    if call["kind"] not in SCATTER_KINDS:
        raise ValueError(f"scatter_nd: kind must be one of {SCATTER_KINDS}, got {call['kind']!r}")
    want, have = update_shape(call), call["src"].shape
    if want != have and all(map(is_static, (*want, *have))):
        raise RuntimeError(f"scatter_nd: src must have shape {list(want)}, got {list(have)}")


def scatter_shape(call: Call) -> Shape:
    return call["x"].shape


def scatter_reference(
    x: np.ndarray, src: np.ndarray, indices: list[np.ndarray], kind: str
) -> np.ndarray:
    result = np.array(x)
    at = tuple(indices)
    if kind == "set":
        # One by one: the last of equal indices wins.
        for place in np.ndindex(indices[0].shape):
            result[tuple(int(i[place]) for i in indices)] = src[place]
        return result
    rule = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    rule.at(result, at, src)
    return result


def scatter_grad(g: Any, x: Any, src: Any, indices: Any, out: Any, kind: str, meta: Meta) -> tuple:
    if kind == "prod":
        return _scatter_prod_grad(g, x, src, indices, out, meta)
    dtype = meta.dtype("x")
    same_x = cast(eq(x, out), dtype)
    same_src = cast(eq(src, gather_nd(out, indices)), dtype)
    share = div(g, scatter_nd(same_x, same_src, indices, kind="sum"))
    return mul(share, same_x), mul(gather_nd(share, indices), same_src)


def _scatter_prod_grad(g: Any, x: Any, src: Any, indices: Any, out: Any, meta: Meta) -> tuple:
    """out / operand; for a 0 the product of the others. Written so for the first and the last 0 of
    src in a place, it can be differentiated again also where there are two."""
    one = full((), 1, meta.dtype("x"))
    x_zero, src_zero = eq(x, 0.0), eq(src, 0.0)
    by_x = mul(g, scatter_nd(where(x_zero, one, x), src, indices, kind="prod"))
    by_x = div(by_x, where(x_zero, one, x))
    by_src = div(gather_nd(mul(g, out), indices), where(src_zero, one, src))
    shape = meta.shape("src")
    number = late.reshape(late.iota(math.prod(shape), int64), shape)
    for kind, none in (("max", -1), ("min", NEVER)):
        found = where(src_zero, number, none)
        ends = scatter_nd(full(meta.shape("x"), none, int64), found, indices, kind=kind)
        end = logical_and(src_zero, eq(number, gather_nd(ends, indices)))
        others = scatter_nd(x, where(end, one, src), indices, kind="prod")
        by_src = where(end, gather_nd(mul(g, others), indices), by_src)
    return by_x, by_src


def scatter_nd_grad(g: Any, indices: Any, kind: str, meta: Meta) -> tuple:
    """`set` and `sum` read no values; the other kinds recompute theirs from the operands."""
    shape, dtype = meta.shape("src"), meta.dtype("src")
    by_src = gather_nd(g, indices) if meta.needs("src") else None
    if kind == "sum":
        return g, by_src
    return scatter_nd(g, zeros(shape, dtype), indices, kind="set"), by_src


def scatter_samples(rng: Rng) -> list[Sample]:
    found = []
    for kind in SCATTER_KINDS:
        at = rng.permutation(5)[:4] if kind == "set" else whole(rng, 4)
        found.append(Sample((array(rng, 5, 3), array(rng, 4, 3), [at]), {"kind": kind}))
    at2 = [whole(rng, 2, 3), whole(rng, 2, 3, high=4)]
    return [*found, Sample((array(rng, 5, 4), array(rng, 2, 3), at2), {"kind": "sum"})]


def any_scatter_grad(
    g: Any, x: Any, src: Any, indices: Any, out: Any, kind: str, meta: Meta
) -> tuple:
    if kind in ("set", "sum"):
        return scatter_nd_grad(g, indices, kind, meta)
    return scatter_grad(g, x, src, indices, out, kind, meta)


def scatter_saves(attrs: dict[str, Any]) -> tuple[str, ...]:
    plain = attrs["kind"] in ("set", "sum")
    return ("indices",) if plain else ("x", "src", "indices", "out")


scatter_nd = op(
    name="scatter_nd",
    doc="x with src set, added, multiplied, maxed or minned in at the indices, in order.",
    inputs=(Arg("x"), Arg("src"), Arg("indices", variadic=True), Attr("kind", "set")),
    shape=scatter_shape,
    dtype=operand_dtype,
    kind="scatter",
    reference=scatter_reference,
    grad=any_scatter_grad,
    saves=scatter_saves,
    check=check_scatter,
    samples=scatter_samples,
    error_samples=(
        ErrorSample(
            (np.ones(3), np.ones(3), [np.zeros(2, np.int64)]), {}, RuntimeError, "must have shape"
        ),
        ErrorSample(
            (np.ones(3), np.ones(2), [np.zeros(2, np.int64)]), {"kind": "mean"}, ValueError, "kind"
        ),
    ),
)


def scatter_joined(x: Any, src: Any, indices: Any, kind: str) -> Any:
    """scatter_nd; truth values are joined as bytes: a sum is true where any is, a product where
    all are."""
    if x.dtype is not bool_ or kind == "set":
        return scatter_nd(x, src, indices, kind=kind)
    kind = {"sum": "max", "prod": "min"}.get(kind, kind)
    wide = scatter_nd(cast(x, uint8), cast(src, uint8), indices, kind=kind)
    return cast(wide, bool_)


def argsort_reference(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    turned = np.flip(x, dim)
    order = np.flip(np.argsort(turned, axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - order


argsort_ = op(
    name="argsort_",
    doc="Positions in sorted order along dim; equal elements keep their order; NaN is largest.",
    inputs=(Arg("x"), Dim("dim", -1), Attr("descending", False)),
    shape=operand_shape,
    dtype=int64_dtype,
    kind="sort",
    reference=argsort_reference,
    grad=NotDifferentiable("the output is a position"),
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"dim": 1, "descending": False}),
        Sample((whole(rng, 6, 2),), {"dim": 0, "descending": True}),
    ],
    pair="Sort does not support complex dtypes on CPU",
)


def argtopk_reference(x: np.ndarray, k: int, dim: int, descending: bool) -> np.ndarray:
    order = argsort_reference(x, dim, descending)
    return order if x.ndim == 0 else order.take(range(k), dim)


argtopk_ = op(
    name="argtopk_",
    doc="The first k of argsort_: positions of the smallest (or largest), in order.",
    inputs=(Arg("x"), Size("k"), Dim("dim", -1), Attr("descending", False)),
    shape=lambda call: replace_dim(call["x"].shape, call["dim"], call["k"]),
    dtype=int64_dtype,
    kind="sort",
    reference=argtopk_reference,
    grad=NotDifferentiable("the output is a position"),
    samples=lambda rng: [
        Sample((array(rng, 3, 9),), {"k": 4, "dim": 1, "descending": True}),
        Sample((whole(rng, 6, 2),), {"k": 3, "dim": 0, "descending": False}),
    ],
    pair="Sort does not support complex dtypes on CPU",
)

iota = op(
    name="iota",
    doc="0, 1, 2, ... up to length.",
    inputs=(Size("length"), Attr("dtype", int64)),
    shape=lambda call: (call["length"],),
    dtype=dtype_attr,
    kind="iota",
    reference=lambda length, dtype: np.arange(length).astype(dtype.np),
    grad=NotDifferentiable("it has no operand"),
    cheap=True,
    samples=lambda rng: [
        Sample((), {"length": 5, "dtype": int64}),
        Sample((), {"length": 0, "dtype": float32}),
    ],
)


def dot_shape(call: Call) -> Shape:
    a, b = call["a"].shape, call["b"].shape
    return (*a[:-1], b[-1])


def check_dot(call: Call) -> None:
    a, b = call["a"].shape, call["b"].shape
    if len(a) < 2 or len(a) != len(b):
        raise RuntimeError(f"dot: operands need the same 2 or more dims, got {len(a)}, {len(b)}")
    pairs = [*zip(a[:-2], b[:-2], strict=True), (a[-1], b[-2])]
    if any(x != y and is_static(x) and is_static(y) for x, y in pairs):
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_matrix(a)} and {_matrix(b)})"
        )


def _matrix(shape: Shape) -> str:
    rows = math.prod(shape[:-1]) if len(shape) == 2 else list(shape[:-1])
    return f"{rows}x{shape[-1]}"


def dot_grad(g: Any, a: Any, b: Any, meta: Meta) -> tuple:
    ndim = meta.ndim("a")
    return (
        dot(g, swap_last(conj_of(b), ndim)) if meta.needs("a") else None,
        dot(swap_last(conj_of(a), ndim), g) if meta.needs("b") else None,
    )


dot = op(
    name="dot",
    doc="Matrix products of the last two dims; the dims before are the same in both.",
    inputs=(Arg("a"), Arg("b")),
    shape=dot_shape,
    dtype=common_dtype,
    kind="dot",
    reference=np.matmul,
    grad=dot_grad,
    check=check_dot,
    samples=lambda rng: [
        Sample((array(rng, 3, 4), array(rng, 4, 2))),
        Sample((array(rng, 2, 3, 4), array(rng, 2, 4, 5))),
        Sample((array(rng, 2, 0), array(rng, 0, 3))),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((4, 5))), {}, RuntimeError, "cannot be multiplied"),
        ErrorSample((np.ones((2, 3)), np.ones(3)), {}, RuntimeError, "same 2 or more"),
    ),
)


def sliding_samples(rng: Rng) -> list[Sample]:
    found = []
    for rows, inner, outer, outputs, taps in ((5, 3, 2, 4, 3), (2, 4, 3, 3, 4)):
        lines = array(rng, inner, outer, outputs + taps - 1)
        places = np.arange(taps)[:, None] + np.arange(outputs)
        b = lines[:, :, places].transpose(0, 2, 1, 3).reshape(inner * taps, outer * outputs)
        found.append(
            Sample((array(rng, rows, inner * taps), b), {"outputs": outputs, "taps": taps})
        )
    return found


dot_sliding = op(
    name="dot_sliding",
    doc="dot(a, b) of a b that slides: b[taps * k + d, outputs * n + s] depends on k, n and d + s. "
    "A backend may use fewer multiplications than taps * outputs for each k and n, in an order of "
    "its own.",
    inputs=(Arg("a"), Arg("b"), Attr("outputs"), Attr("taps")),
    shape=dot_shape,
    dtype=common_dtype,
    kind="dot",
    reference=lambda a, b, outputs, taps: np.matmul(a, b),
    grad=dot_grad,
    check=check_dot,
    samples=sliding_samples,
)
