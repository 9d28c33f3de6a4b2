"""Math functions become basic ops, so that every backend computes the same bits (never libm).

In: expressions or a Program with MATH ops of float32 or float64. Out: the same values with basic
ops only. Shared parts stay shared: every expression is rewritten once. Multiply-adds are fused
only where a body says `fma`.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.lower.math import exp_log, hyperbolic, special, trig
from rushlight.compiler.tile.rewrite import map_exprs, rewrite_expr
from rushlight.compiler.tile.ir import Program
from rushlight.ir.scalar import MATH_BINARY, MATH_UNARY, E

BODIES: dict[str, Callable[..., E]] = {
    "exp": exp_log.exp, "exp2": exp_log.exp2, "expm1": exp_log.expm1, "log": exp_log.log,
    "log2": exp_log.log2, "log10": exp_log.log10, "log1p": exp_log.log1p, "pow": exp_log.pow_,
    "sigmoid": exp_log.sigmoid, "sin": trig.sin, "cos": trig.cos, "tan": trig.tan,
    "asin": trig.asin, "acos": trig.acos, "atan": trig.atan, "atan2": trig.atan2,
    "sinh": hyperbolic.sinh, "cosh": hyperbolic.cosh, "tanh": hyperbolic.tanh,
    "asinh": hyperbolic.asinh, "acosh": hyperbolic.acosh, "atanh": hyperbolic.atanh,
    "erf": special.erf, "erfc": special.erfc, "erfinv": special.erfinv,
    "lgamma": special.lgamma, "digamma": special.digamma, "rsqrt": special.rsqrt,
}  # fmt: skip

assert set(BODIES) == {*MATH_UNARY, *MATH_BINARY}

BOUNDS: dict[str, tuple[float, float]] = {}


def expand(program: Program) -> Program:
    """The program with basic ops only."""
    memo: dict[E, E] = {}
    return map_exprs(program, lambda e: expand_expr(e, memo))


def expand_expr(e: E, memo: dict[E, E] | None = None) -> E:
    """The expression with basic ops only. `memo` carries results from one call to the next."""
    return rewrite_expr(e, _expand_node, {} if memo is None else memo)


def _expand_node(node: E) -> E:
    body = BODIES.get(node.op)
    return node if body is None else body(*node.args)
