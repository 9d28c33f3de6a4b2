"""Math functions become basic ops, so that every backend computes the same bits (never libm).

In: expressions or a Program with MATH ops of float32 or float64. Out: the same values with basic
ops only. Shared parts stay shared: every expression is rewritten once. Multiply-adds are fused
only where a body says `fma`.

Largest errors in units in the last place against a 64-bit reference (tests/numerics/test_math_ulp;
denormal arguments and results included); BOUNDS below are the promise:

              float32  float64               float32  float64               float32  float64
    exp          0.88     0.85    tanh          1.75     1.73    asin          0.50     2.19
    exp2         0.76     0.77    sinh          0.50     2.37    acos          0.50     2.40
    expm1        1.44     1.79    cosh          0.50     2.51    atan          0.50     1.71
    log          0.87     0.86    asinh         0.50     1.23    atan2         0.50     2.00
    log2         0.92     1.08    acosh         0.50     1.96    pow           0.50     0.96
    log10        0.50     0.92    atanh         0.50     1.52    lgamma        0.50   40 (*)
    log1p        0.79     0.78    erf           2.00     1.66    digamma       0.50   10 (*)
    sin (**)     1.40     1.48    erfc          0.50     3.00    sigmoid       2.06     1.87
    cos (**)     1.48     1.43    erfinv        0.56     3.48    rsqrt         1.41     1.47
    tan (**)     0.50     2.93

(*) in units of max(1, |result|). (**) |x| <= 1e4; see math/trig for larger ones.
Functions with 0.50 in float32 are computed in float64 and rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rushlight.compiler.lower.math import exp_log, hyperbolic, special, trig
from rushlight.compiler.tile.ir import AnyGrid, AttentionGrid, Program
from rushlight.compiler.tile.rewrite import map_exprs, rewrite_expr
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

# Largest error in ULP: (float32, float64).
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1, 1), "exp2": (1, 1), "expm1": (1.6, 2), "log": (1, 1), "log2": (1, 1.2),
    "log10": (0.51, 1.1), "log1p": (1, 1), "sin": (1.6, 1.6), "cos": (1.6, 1.6), "tan": (0.51, 3.2),
    "sinh": (0.51, 2.8), "cosh": (0.51, 2.8), "tanh": (2, 2), "asin": (0.51, 2.4),
    "acos": (0.51, 2.6), "atan": (0.51, 2), "asinh": (0.51, 1.6), "acosh": (0.51, 2.2),
    "atanh": (0.51, 1.8), "erf": (2.1, 2), "erfc": (0.51, 3.2), "erfinv": (0.7, 4),
    "lgamma": (0.51, 64), "digamma": (0.51, 12), "sigmoid": (2.2, 2.2), "rsqrt": (1.5, 1.5),
    "pow": (0.51, 1.2), "atan2": (0.51, 2.2),
}  # fmt: skip


def expand(program: Program) -> Program:
    """The program with basic ops only."""
    memo: dict[E, E] = {}
    grids = tuple(_with_short_exp(grid) for grid in program.grids)
    return map_exprs(replace(program, grids=grids), lambda e: expand_expr(e, memo))


def _with_short_exp(grid: AnyGrid) -> AnyGrid:
    """A softmax takes exp of what is at most 0, and what its sums (of at least 1) cannot see may
    be 0: a third of the work less than exp for all numbers."""
    if not isinstance(grid, AttentionGrid) or grid.softmax is None or grid.softmax.exp.op != "exp":
        return grid
    exp = exp_log.exp_not_positive(*grid.softmax.exp.args)
    return replace(grid, softmax=replace(grid.softmax, exp=exp))


def expand_expr(e: E, memo: dict[E, E] | None = None) -> E:
    """The expression with basic ops only. `memo` carries results from one call to the next."""
    return rewrite_expr(e, _expand_node, {} if memo is None else memo)


def _expand_node(node: E) -> E:
    body = BODIES.get(node.op)
    return node if body is None else body(*node.args)
