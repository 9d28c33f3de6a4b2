"""Graphs that become each kind of tile program, in the shapes that schedules treat differently.

In: an object that makes leaves (`cases._Leaves`). Out: roots. To add a case, add a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import ALL_DTYPES, bfloat16, float16, float32, float64, int32, int64
from rushlight.ir.node import Node, const_node
from rushlight.ir.opdef import all_ops

Build = Callable[[Any], list[Node]]

MATH = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh erf erfc erfinv lgamma digamma sigmoid rsqrt sqrt floor ceil trunc"
)
EDGES = [
    0.0, -0.0, 1.0, -1.0, 2.0, -2.5, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-44,
    3e38, -3e38, 88.7, -87.5, -103.9, 1e10, 0.5, 1.5, 1e-8, 6.3e6,
]  # fmt: skip


def unary(name: str, low: float, high: float, dtype: str = "float32") -> Build:
    return lambda v: [all_ops()[name](v.uniform(low, high, 7, 41, dtype=dtype))]


def edges(dtype: str) -> Build:
    """Every math function at the edges of its domain and of the format."""

    def build(v: Any) -> list[Node]:
        x = v.of(np.array(EDGES, dtype))
        grid = np.array([(a, b) for a in EDGES for b in EDGES], dtype)
        y, z = v.of(grid[:, 0].copy()), v.of(grid[:, 1].copy())
        roots = [all_ops()[name](x) for name in MATH.split()]
        pairs = (ops.pow_, ops.atan2, ops.div, ops.maximum, ops.minimum, ops.fmod)
        return roots + [op(y, z) for op in pairs]

    return build


def whole_casts(v: Any, wide: bool) -> list[Node]:
    """Between integer dtypes, with numbers that have the first bit set; wide: of 4 and 8 bytes."""
    bits = np.array([0, 1, 127, 128, 255, 1 << 15, 1 << 31, 3 << 30, 1 << 63, (1 << 64) - 1], "u8")
    whole = [d for d in ALL_DTYPES if d.kind in ("int", "uint") and (d.itemsize >= 4 or not wide)]
    leaves = [v.of(bits.astype(d.np)) for d in whole if wide == (d.itemsize >= 4)]
    goals = [*whole, float32]
    return [ops.cast(x, d) for x in leaves for d in goals if d is not x.dtype]


def float_casts(v: Any) -> list[Node]:
    """To every integer dtype, out of range and NaN too; 16-bit floats at ties and subnormals."""
    values = [*EDGES, 2.0**31, -(2.0**31), 2.0**63, 127.5, -129.0, 300.7, 65535.9, 4.3e9]
    x, y = v.of(np.array(values, "float32")), v.of(np.array(values, "float64"))
    small = v.of((np.arange(1, 400) * 2.0**-26 * 1.37).astype("float32"))
    roots = [ops.cast(source, goal) for goal in ALL_DTYPES for source in (x, y)]
    return [*roots, ops.cast(small, float16), ops.cast(ops.cast(small, float16), float32)]


def softmax(dims: int, *shape: int) -> Build:
    def build(v: Any) -> list[Node]:
        x = v.normal(*shape)
        keep = tuple(1 if d == dims else n for d, n in enumerate(shape))
        top = ops.expand(ops.reshape(ops.reduce_max(x, (dims,)), keep), shape)
        e = ops.exp(ops.sub(x, top))
        total = ops.expand(ops.reshape(ops.reduce_sum(e, (dims,)), keep), shape)
        return [ops.div(e, total)]

    return build


def low_precision(v: Any) -> list[Node]:
    x = ops.cast(v.normal(33, 20), bfloat16)
    half = ops.cast(v.normal(33, 20), float16)
    return [
        ops.reduce_sum(x, (0,)), ops.mul(half, half), ops.dot(x, ops.permute(x, (1, 0))),
        ops.exp(x), ops.cast(half, bfloat16), ops.scan_sum(x, 1), ops.reduce_max(half, (1,)),
    ]  # fmt: skip


def scatter(rows: int, updates: int, *inner: int) -> Build:
    def build(v: Any) -> list[Node]:
        x, at, base = v.normal(updates, *inner), v.ints(rows, updates), v.normal(rows, *inner)
        kinds = ("sum", "set", "max", "min", "prod")
        return [ops.scatter_nd(base, x, [at], kind) for kind in kinds]

    return build


def movement(v: Any) -> list[Node]:
    x = v.normal(6, 8)
    return [
        ops.permute(x, (1, 0)), ops.reshape(ops.permute(x, (1, 0)), (3, 16)), ops.flip(x, (1,)),
        ops.cat([x, ops.neg(x)], 0), ops.pad(x, const_node(1.0, float32), (1, 0), (0, 2), (0, 0)),
    ]  # fmt: skip


def nothing(v: Any) -> list[Node]:
    """Every kind of kernel over no elements."""
    x, wide, at = v.normal(0, 5), v.normal(5, 0), v.ints(5, 0)
    return [
        ops.exp(x), ops.reduce_sum(x, (0,)), ops.reduce_sum(wide, (0,)), ops.cat([wide, wide], 0),
        ops.cat([x, ops.neg(x)], 0), ops.scan_sum(x, 1), ops.scan_sum(wide, 1), ops.dot(x, wide),
        ops.dot(wide, x), ops.gather_nd(v.normal(5, 4), [at]), ops.argsort_(x, 1, False),
        ops.scatter_nd(v.normal(5, 4), v.normal(0, 4), [at], "sum"),
        ops.slice_scatter_(v.normal(6, 5), x, (2, 0), (0, 5), (1, 1)),
    ]  # fmt: skip


def integers(v: Any) -> list[Node]:
    x, y = ops.cast(v.ints(100, 50), int32), ops.cast(v.ints(7, 50), int32)
    shifted = ops.sub(x, ops.mul(y, y))
    return [
        ops.floor_divide(shifted, ops.add(y, 1)), ops.remainder(shifted, ops.add(y, 1)),
        ops.bitwise_xor(x, y), ops.reduce_sum(x, (0,)), ops.argmax_(x, (0,)),
        ops.shift_left(x, y), ops.shift_right(shifted, ops.mul(y, 9)),
    ]  # fmt: skip


def attention(causal: bool, length: int = 40, keys: int = 70) -> Build:
    """The output, what is made of it, and the lse: one kernel; and an lse alone."""

    def build(v: Any) -> list[Node]:
        q, k, w = v.normal(2, length, 8), v.normal(2, keys, 8), v.normal(2, keys, 5)
        scores = masked(ops.pair_dot(q, k)) if causal else ops.pair_dot(q, k)
        if not causal:
            scores = ops.add(scores, v.normal(length, keys))
        lse = ops.flash_lse(scores)
        out = ops.flash_attention(scores, w, lse)
        alone = ops.flash_lse(masked(ops.pair_dot(ops.mul(q, q), k)))
        return [out, ops.tanh(out), lse, ops.flash_top(scores), alone]

    return build


def masked(scores: Node) -> Node:
    return ops.pair_mask(scores, None, [], is_causal=True, fill="minus")


def pairs(v: Any) -> list[Node]:
    """Sums over pairs, and pair values that others read."""
    q, k, w, table = v.normal(2, 40, 8), v.normal(2, 70, 8), v.normal(2, 40, 5), v.normal(2, 110)
    b, i, j = (ops.pair_index((2, 40, 70), dim) for dim in range(3))
    bias = ops.gather_nd(table, [b, ops.add(ops.sub(i, j), 69)])
    product = ops.pair_dot(q, k)
    scores = ops.add(product, bias)
    weight = ops.pair_mask(ops.tanh(scores), ops.ge(i, j), [], fill="zero")
    zeros = ops.expand(const_node(0.0, float32), (2,))
    return [
        ops.pair_sum(weight, k, over="s"), ops.pair_sum(weight, w, over="l"),
        ops.pair_sum(weight, None, over="l"), ops.reduce_sum(weight, (0, 2)), scores,
        ops.scatter_nd(zeros, weight, [b], kind="sum"),
        ops.scatter_nd(ops.mul(table, 2.0), weight, [b, ops.add(ops.sub(i, j), 69)], kind="sum"),
    ]  # fmt: skip


def extremes(v: Any) -> list[Node]:
    """Ties, both zeros and NaN."""
    rows = np.array(
        [[0.0, -0.0, -0.0, 0.0], [-0.0, 0.0, 0.0, -0.0], [1, np.nan, 5, np.nan], [3, 3, 3, 3]] * 17,
        "float32",
    )
    x = v.of(rows)
    found = [op(x, (d,)) for op in (ops.reduce_max, ops.reduce_min, ops.argmax_, ops.argmin_)
             for d in (0, 1)]  # fmt: skip
    scans = (ops.scan_max, ops.scan_min, ops.scan_argmax, ops.scan_argmin)
    return found + [op(x, d) for op in scans for d in (0, 1)]


def sorts(v: Any) -> list[Node]:
    few = ops.cast(v.ints(9, 5, 40), float32)
    x = v.normal(40)
    odd = v.of(np.array([2, np.nan, -0.0, 0.0, np.inf, -np.inf, np.nan, 2, -1], "float32"))
    return [
        ops.argsort_(rows, dim, turn)
        for rows, dim in ((few, 1), (few, 0), (x, 0), (v.normal(3, 3000), 1), (odd, 0))
        for turn in (False, True)
    ]


def first_sorted(v: Any) -> list[Node]:
    """The first few positions of short rows, of columns, and of rows that are selected from."""
    few = ops.cast(v.ints(9, 5, 40), float32)
    return [
        ops.argtopk_(rows, k, dim, turn)
        for rows, k, dim in ((few, 7, 1), (few, 2, 0), (v.normal(3, 3000), 5, 1))
        for turn in (False, True)
    ]


def products(dtype: str) -> Build:
    return lambda v: [
        ops.dot(v.normal(33, 70, dtype=dtype), v.normal(70, 45, dtype=dtype)),
        ops.dot(v.normal(1, 300, dtype=dtype), v.normal(300, 130, dtype=dtype)),
        ops.dot(v.normal(5, 4, dtype=dtype), ops.permute(v.normal(3, 4, dtype=dtype), (1, 0))),
    ]


TEMPLATES: dict[str, Build] = {
    **{n: unary(n, -3, 3) for n in "exp expm1 tanh erf erfc sigmoid sin cos atan sinh".split()},
    **{n: unary(n, 0.01, 30) for n in "log log2 log10 log1p rsqrt lgamma digamma".split()},
    **{f"{n}_float64": unary(n, -2, 2, "float64") for n in "exp tanh erf sin erfc".split()},
    **{f"{n}_unit": unary(n, -0.99, 0.99) for n in "asin acos atanh erfinv".split()},
    "edges_float32": edges("float32"),
    "edges_float64": edges("float64"),
    "float_casts": float_casts,
    "whole_casts_wide": lambda v: whole_casts(v, True),
    "whole_casts_narrow": lambda v: whole_casts(v, False),
    "pow": lambda v: [ops.pow_(ops.abs_(v.normal(50)), v.normal(50))],
    "softmax_rows": softmax(1, 9, 77),
    "softmax_columns": softmax(0, 9, 77),
    "softmax_middle": softmax(1, 4, 19, 70),
    "sum_rows": lambda v: [ops.reduce_sum(v.normal(5, 9000), (1,))],
    "sum_columns": lambda v: [ops.reduce_sum(v.normal(300, 70), (0,))],
    "sum_long_columns": lambda v: [ops.reduce_sum(v.normal(9000, 3), (0,))],
    "sum_all": lambda v: [ops.reduce_sum(v.normal(70, 900), (0, 1))],
    "sum_outer": lambda v: [ops.reduce_sum(v.normal(7, 6, 50), (0, 2))],
    "prod": lambda v: [ops.reduce_prod(v.uniform(0.9, 1.1, 6, 500), (1,))],
    "extremes": extremes,
    "argmax": lambda v: [ops.argmax_(v.normal(13, 50), (1,)), ops.argmin_(v.normal(13, 50), (0,)),
                         ops.argmax_(v.normal(9000), (0,))],
    "dot": products("float32"),
    "dot_float64": products("float64"),
    "dot_int": lambda v: [ops.dot(v.ints(99, 9, 30), v.ints(99, 30, 8))],
    "dot_epilogue": lambda v: [ops.tanh(ops.dot(v.normal(3, 17, 9), v.normal(3, 9, 20)))],
    "scan": lambda v: [
        ops.scan_sum(v.normal(6, 50), 1), ops.scan_sum(v.normal(50, 70), 0),
        ops.scan_prod(v.uniform(0.9, 1.1, 4, 900), 1), ops.scan_max(v.normal(6, 50), 1),
        ops.scan_argmin(v.normal(6, 700), 1), ops.scan_sum(v.ints(99, 3000), 0),
    ],
    "sort": sorts,
    "sort_first": first_sorted,
    "gather": lambda v: [ops.gather_nd(v.normal(20, 6), [v.ints(20, 15)])],
    "scatter_rows": scatter(12, 30, 5),
    "scatter_elements": scatter(50, 700),
    "scatter_wide": scatter(7, 9, 300),
    "movement": movement,
    "nothing": nothing,
    "integers": integers,
    "low_precision": low_precision,
    "attention": attention(False),
    "attention_causal": attention(True, 100, 100),
    "pairs": pairs,
    "iota": lambda v: [ops.add(ops.iota(40, int64), v.ints(9, 40))],
    "float64_cast": lambda v: [ops.cast(ops.mul(v.normal(40), 1e3), int64),
                               ops.cast(v.normal(9), float64)],
}  # fmt: skip
