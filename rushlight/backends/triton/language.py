"""Triton as a Language: values are blocks with an element per thread, or scalars.

In: operations and operands as text. Out: text of a `@triton.jit` function. Always true: a literal
stands alone only beside an operand that has a type; `typed` makes a value of one elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isinf, isnan

import numpy as np

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.helpers import SHORT
from rushlight.backends.cfamily.language import Language
from rushlight.base.dtypes import DType, float32

SUBGROUP = 32  # threads that exchange values: any would do, sums have so many partials
PROLOGUE = '''\
import triton
import triton.language as tl


@triton.jit
def nearest(x, big):
    """Half to even. big: a power of two from which on all numbers are whole."""
    size = tl.abs(x)
    whole = (size + big) - big
    signed = tl.where(x < 0.0, whole * -1.0, tl.where(x == 0.0, x, whole))
    signed = tl.where((whole == 0.0) & (x < 0.0), x * 0.0, signed)
    return tl.where(size < big, signed, x)


@triton.jit
def toward_zero(x):
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))


@triton.jit
def largest(x):
    """Of the elements of a block."""
    return tl.reduce(x, 0, tl.standard._elementwise_max)


@triton.jit
def largest_of_rows(x):
    """Of each row of a block, as a column."""
    return tl.reduce(x, 1, tl.standard._elementwise_max, keep_dims=True)


@triton.jit
def sum_of_rows(x):
    """Likewise."""
    return tl.reduce(x, 1, tl.standard._sum_combine, keep_dims=True)
'''
_LITERAL = re.compile(r"\(?-?(\d[\d.]*(e[+-]?\d+)?|float\(\"\w+\"\)|True|False)\)?")


def is_literal(text: str) -> bool:
    return _LITERAL.fullmatch(text) is not None


class Triton(Language):
    types = {
        "bool": "tl.int1", "float32": "tl.float32", "float64": "tl.float64",
        **{f"{u}int{n}": f"tl.{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
    }  # fmt: skip
    stored = {"bool": "tl.uint8"}
    functions = {
        **{f"{op}.{t}": f"tl.{op}" for op in "fma floor ceil abs".split() for t in ("f32", "f64")},
        "sqrt.f32": "tl.sqrt_rn", "sqrt.f64": "tl.sqrt", "div.f32": "tl.div_rn",
        "trunc.f32": "toward_zero", "trunc.f64": "toward_zero",
    }  # fmt: skip
    wraps = True
    divides = "//"
    suffix = {}
    helper = "@triton.jit\ndef"
    prologue = PROLOGUE

    # literals -----------------------------------------------------------------------------------

    def literal(self, value: object, dtype: DType) -> str:
        if dtype.kind == "bool":
            return "True" if value else "False"
        whole = self.carrier(dtype)
        if whole is not dtype:
            return str(int(np.asarray(value).astype(dtype.np).view(whole.np)))
        return super().literal(value, dtype)

    def _float(self, value: float, dtype: DType) -> str:
        if isnan(value) or isinf(value):
            name = "nan" if isnan(value) else "inf"
            return f'(-float("{name}"))' if value < 0 else f'float("{name}")'
        return super()._float(value, dtype)

    def _integer(self, value: int, dtype: DType) -> str:
        if dtype.kind == "uint":
            value &= (1 << (8 * dtype.itemsize)) - 1
        return self._signed(str(value))

    def typed(self, text: str, dtype: DType) -> str:
        """A literal as a value that has a type; any other text as it is."""
        return f"tl.full((), {text}, {self.value_type(dtype)})" if is_literal(text) else text

    # values -------------------------------------------------------------------------------------

    def cast(self, text: str, dtype: DType) -> str:
        if is_literal(text):
            return self.typed(text, dtype)
        return f"tl.cast({text}, {self.value_type(dtype)})"

    def bitcast(self, text: str, source: DType, goal: DType) -> str:
        return f"tl.cast({self.typed(text, source)}, {self.value_type(goal)}, bitcast=True)"

    def select(self, condition: str, a: str, b: str) -> str:
        return f"tl.where({condition}, {a}, {b})"

    def exchange(self, op: str, text: str, number: int, dtype: DType) -> str:
        place = {
            "subgroup_down": f"tl.minimum(lane + {number}, last_lane)",
            "subgroup_up": f"tl.maximum(lane - {number}, 0)",
            "subgroup_at": f"lane // {SUBGROUP} * {SUBGROUP} + {number}",
        }[op]
        return f"tl.gather({text}, {place}, 0)"

    def operation(self, op: str, dtype: DType, args: Sequence[str], source: DType) -> str:
        if f"{op}.{SHORT[source.name]}" in self.functions:
            args = [self.typed(arg, source) for arg in args]
        elif all(map(is_literal, args)):
            args = [self.typed(args[0], source), *args[1:]]
        if op == "rint":
            return f"nearest({args[0]}, {2.0**23 if source is float32 else 2.0**52})"
        if op == "neg":
            return f"({args[0]} * -1.0)" if dtype.is_floating_point else f"(0 - {args[0]})"
        if op == "raw_idiv":
            return f"({args[0]} // {args[1]})"
        if op == "not":
            return f"({args[0]} == 0)" if dtype.kind == "bool" else f"(~{args[0]})"
        return super().operation(op, dtype, args, source)

    def _narrowed(self, text: str, dtype: DType) -> str:
        return f"({text})"  # narrow integers stay narrow

    # statements ---------------------------------------------------------------------------------

    def declare(self, dtype: DType, name: str, value: str, changes: bool) -> str:
        return f"{name} = {value}"

    def barrier(self) -> str:
        return "tl.debug_barrier()"

    def array(self, array: c.Array) -> str:
        raise NotImplementedError("Triton has no arrays: they lie in scratch")

    def function(self, name: str, parameters: Sequence[tuple[str, DType]], result: DType) -> str:
        return f"@triton.jit\ndef {name}({', '.join(p for p, _ in parameters)})"

    def kernel_head(
        self, kernel: c.Kernel, buffers: Sequence[tuple[str, DType, bool]]
    ) -> list[str]:
        names = ", ".join([*(name for name, _, _ in buffers), "numbers", "status"])
        return ["@triton.jit", f"def {kernel.name}({names}):"]

    def group_head(self, kernel: c.Kernel) -> list[str]:
        return [
            "group_id = tl.cast(tl.program_id(0), tl.int64)",
            f"lane = tl.arange(0, {kernel.threads})",
            f"last_lane = tl.full((), {kernel.threads - 1}, tl.int32)",
            "thread_id = tl.cast(lane, tl.int64)",
        ]
