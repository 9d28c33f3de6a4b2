"""Runs a record's scalar body in numpy: what the compiler emits, element by element."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from rushlight.base.dtypes import dtype_of_numpy
from rushlight.ir import scalar as s
from rushlight.ops import reference as ref

MATH = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": ref.erf, "erfc": ref.erfc, "erfinv": ref.erfinv, "lgamma": ref.lgamma,
    "digamma": ref.digamma, "sigmoid": ref.sigmoid, "rsqrt": lambda x: 1 / np.sqrt(x),
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "not": np.invert, "add": np.add, "sub": np.subtract,
    "mul": np.multiply, "div": np.true_divide, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "shr": np.right_shift, "select": np.where, "pow": np.power, "atan2": np.arctan2,
}  # fmt: skip


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """One rounding: exact in fractions of Python integers."""

    def one(x: float, y: float, z: float) -> float:
        if not all(map(math.isfinite, (x, y, z))):
            return x * y + z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        return float(exact) if exact else x * y + z

    return np.vectorize(one, otypes=[np.float64])(*(np.float64(v) for v in (a, b, c)))


def _toward_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, safe = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient)


def run(record: Any, arrays: list[np.ndarray], **attrs: Any) -> np.ndarray:
    """The value of a record's scalar body on arrays (params named x0, x1, ...)."""
    arrays = [np.asarray(a) for a in arrays]
    params = [s.param(f"x{i}", dtype_of_numpy(a.dtype)) for i, a in enumerate(arrays)]
    if isinstance(record.scalar, str):
        body = s.make(record.scalar, tuple(params), params[0].dtype)
    else:
        body = record.scalar(*params, **attrs)
    return evaluate(body, {f"x{i}": a for i, a in enumerate(arrays)})


def evaluate(root: s.E, params: dict[str, np.ndarray]) -> np.ndarray:
    values: dict[s.E, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for e in s.topological([root]):
            args = [values[a] for a in e.args]
            values[e] = np.asarray(_one(e, args, params)).astype(e.dtype.np)
    return values[root]


def _one(e: s.E, args: list[np.ndarray], params: dict[str, np.ndarray]) -> Any:
    if e.op == "const":
        return np.asarray(e.meta[0]).astype(e.dtype.np)
    if e.op == "param":
        return params[e.meta]
    if e.op == "cast":
        return args[0].astype(e.dtype.np)
    if e.op == "bitcast":
        return np.ascontiguousarray(args[0]).view(e.dtype.np).reshape(args[0].shape)
    if e.op == "fma":
        return _fused(*args)
    if e.op == "idiv":
        return _toward_zero(*args)
    if e.op == "irem":
        return np.where(args[1] == 0, 0, np.fmod(args[0], np.where(args[1] == 0, 1, args[1])))
    return MATH[e.op](*args)
