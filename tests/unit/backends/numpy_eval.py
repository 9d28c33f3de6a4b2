"""A tiny numpy meaning of scalar expressions and of canonical reductions, for the backend tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import evaluate, variables


def expression(
    e: E, env: Mapping[str, Any], arrays: Mapping[Any, np.ndarray], params: Mapping[str, Any]
) -> np.ndarray:
    """The values of `e` where env gives every variable as an int or an int64 array."""
    values: dict[E, Any] = {}

    def index(at: int | Expr) -> Any:
        inside = {
            v.name: values[v.payload].astype(np.int64)
            for v in variables(at).values()
            if v.kind == "value"
        }
        return evaluate(at, {**env, **inside})

    with np.errstate(all="ignore"):
        for node in topological((e,)):
            values[node] = np.asarray(_node(node, values, index, arrays, params))
    return values[e]


def _node(node: E, values: dict, index: Any, arrays: Mapping, params: Mapping) -> Any:
    args = [values[a] for a in node.args]
    if node.op == "const":
        return node.dtype.np.type(node.meta[0])
    if node.op == "param":
        return node.dtype.np.type(params[node.meta])
    if node.op == "index":
        return np.asarray(index(node.meta), np.int64)
    if node.op in ("load", "local"):
        buffer, at = node.meta
        place = np.asarray(index(at))
        if not args:
            return arrays[buffer][place]
        mask, other = args
        return np.where(mask, arrays[buffer][np.where(mask, place, 0)], other)
    if node.op == "check_index":
        size = index(node.meta[0])
        return np.where((args[0] < 0) | (args[0] >= size), 0, args[0]).astype(args[0].dtype)
    if node.op == "cast":
        return cast(args[0], node.args[0].dtype, node.dtype)
    if node.op == "bitcast":
        return args[0].view(node.dtype.np)
    return np.asarray(_OPS[node.op](*args)).astype(node.dtype.np)


def cast(x: np.ndarray, source: DType, goal: DType) -> np.ndarray:
    """As documented in ir/scalar.py: x86's float -> int; 16-bit floats by way of float32."""
    if goal.kind == "bool":
        return x != 0
    if source.is_floating_point and goal.is_integral:
        return _float_to_int(x.astype(np.float64), goal)
    if goal.is_floating_point and goal.itemsize == 2:
        return x.astype(np.float32).astype(goal.np)
    if source.itemsize == 2 and source.is_floating_point:
        return x.astype(np.float32).astype(goal.np)
    return x.astype(goal.np)


def _float_to_int(x: np.ndarray, goal: DType) -> np.ndarray:
    bits = 32 if goal.itemsize < 4 or goal.name == "int32" else 64
    if goal.name == "uint64":
        high = x >= 2.0**63
        part = _signed(np.where(high, x - 2.0**63, x), 64).view(np.uint64)
        return np.where(high, part ^ np.uint64(1 << 63), part)
    return _signed(x, bits).astype(goal.np)


def _signed(x: np.ndarray, bits: int) -> np.ndarray:
    limit = 2.0 ** (bits - 1)
    whole = np.trunc(x)
    fits = (whole >= -limit) & (whole < limit)
    least = np.int64(-(1 << (bits - 1)))
    return np.where(fits, np.where(fits, whole, 0).astype(np.int64), least)


def _idiv(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "u":
        return np.where(y == 0, 0, x // np.where(y == 0, 1, y))
    safe = np.where((y == 0) | (y == -1), 1, y)
    quotient = x // safe
    quotient = quotient + ((quotient < 0) & (quotient * safe != x))
    return np.where(y == 0, 0, np.where(y == -1, -x, quotient))


def _irem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, 0, x - _idiv(x, y) * y)


def _shift(x: np.ndarray, y: np.ndarray, left: bool) -> np.ndarray:
    width = 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < width)
    safe = np.where(inside, y, 0).astype(x.dtype)
    if left:
        return np.where(inside, x << safe, x.dtype.type(0))
    sign = (x.dtype.type(0) - (x < 0)).astype(x.dtype)
    return np.where(inside, x >> safe, sign)


_OPS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "div": np.divide,
    "idiv": _idiv,
    "irem": _irem,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": lambda x, y: _shift(x, y, True),
    "shr": lambda x, y: _shift(x, y, False),
    "select": np.where,
}


def canonical(x: np.ndarray, kind: str = "sum") -> Any:
    """One sum or product of the elements of `x`, in the canonical order of compiler/tile/ir.py."""
    join, identity = (np.add, 0) if kind == "sum" else (np.multiply, 1)
    chunks = []
    with np.errstate(all="ignore"):
        for start in range(0, max(len(x), 1), 4096):
            chunk = x[start : start + 4096]
            partials = np.full(32, identity, x.dtype)
            for at in range(0, len(chunk), 32):
                block = chunk[at : at + 32]
                partials[: len(block)] = join(partials[: len(block)], block)
            while len(partials) > 1:
                half = len(partials) // 2
                partials = join(partials[:half], partials[half:])
            chunks.append(partials[0])
        return neighbours(chunks, join)


def neighbours(chunks: list, join: Any) -> Any:
    """The tree over neighbours; an odd last one is carried up."""
    while len(chunks) > 1:
        pairs = [join(chunks[n], chunks[n + 1]) for n in range(0, len(chunks) - 1, 2)]
        chunks = pairs + chunks[len(chunks) // 2 * 2 :]
    return chunks[0]
