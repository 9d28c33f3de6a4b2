"""What a C-like language looks like: tables, and a few methods for what is no table.

In: operations and their operands as text. Out: text. `Language` itself is plain C99 with the type
names left open; a backend gives its own tables and overrides what differs. Always true: operands
come in a form that binds tighter than every operator, and so does every result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan

import numpy as np

from rushlight.backends.cfamily.code import Array, Kernel, Matrix
from rushlight.backends.cfamily.helpers import SHORT, carrier
from rushlight.base.dtypes import DType, float32, float64, int64, uint32, uint64

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^", "raw_shl": "<<", "raw_shr": ">>",
    "raw_idiv": "/", "raw_irem": "%",
}  # fmt: skip
COMPARES = frozenset("lt le gt ge eq ne".split())


class Language:
    """One C-like language. Class attributes are its tables.

    types      value type of each dtype that it has
    stored     type in memory, where it is another
    functions  "op.dtype" -> name of a function, as in "fma.f32"
    index      the dtype of index arithmetic
    wraps      signed integers wrap around on overflow
    divides    the operator for whole numbers
    soft_double  there is no float64: its bits are carried as uint64, see double/
    """

    types: Mapping[str, str] = {}
    stored: Mapping[str, str] = {"bool": "uchar"}
    functions: Mapping[str, str] = {}
    index: DType = int64
    wraps = False
    soft_double = False
    divides = "/"
    suffix: Mapping[str, str] = {"float32": "f", "int64": "L", "uint32": "u", "uint64": "UL"}
    infinity = "INFINITY"
    not_a_number = "NAN"
    unroll = "#pragma unroll"
    independent = ""
    helper = "inline"
    prologue = ""

    # types --------------------------------------------------------------------------------------

    def carrier(self, dtype: DType) -> DType:
        """The dtype whose values stand for those of another in text."""
        return uint64 if self.soft_double and dtype is float64 else carrier(dtype)

    def value_type(self, dtype: DType) -> str:
        return self.types[self.carrier(dtype).name]

    def memory_type(self, dtype: DType) -> str:
        return self.stored.get(dtype.name) or self.value_type(dtype)

    # values -------------------------------------------------------------------------------------

    def literal(self, value: object, dtype: DType) -> str:
        if dtype.kind == "bool":
            return "true" if value else "false"
        whole = self.carrier(dtype)
        if whole is not dtype:
            bits = int(np.asarray(value).astype(dtype.np).view(whole.np))
            return self.cast(self._integer(bits, whole), whole)
        if dtype.is_floating_point:
            return self._float(float(value), dtype)  # type: ignore[arg-type]
        return self._integer(int(value), dtype)  # type: ignore[call-overload]

    def _float(self, value: float, dtype: DType) -> str:
        if isnan(value):
            return self.cast(self.not_a_number, dtype)
        if isinf(value):
            sign = "-" if value < 0 else ""
            return self.cast(f"({sign}{self.infinity})", dtype)
        text = repr(float(np.float32(value))) if dtype is float32 else repr(value)
        if dtype is float32:
            text = str(np.float32(value))
        if "e" not in text and "." not in text:
            text += ".0"
        return self._signed(text + self.suffix.get(dtype.name, ""))

    def _integer(self, value: int, dtype: DType) -> str:
        if dtype.kind == "uint":
            value &= (1 << (8 * dtype.itemsize)) - 1
        suffix = self.suffix.get(dtype.name, "")
        if dtype.kind == "int" and value == -(1 << (8 * dtype.itemsize - 1)):
            return f"({value + 1}{suffix} - 1{suffix})"
        text = self._signed(f"{value}{suffix}")
        return self.cast(text, dtype) if dtype.itemsize < 4 else text

    def _signed(self, text: str) -> str:
        return f"({text})" if text.startswith("-") else text

    def cast(self, text: str, dtype: DType) -> str:
        return f"({self.value_type(dtype)}){text}"

    def convert(self, text: str, source: DType, goal: DType) -> str:
        """A cast, where it matters from what."""
        return self.cast(text, goal)

    def hidden(self, text: str, dtype: DType) -> str:
        """A constant whose value the compiler may not see: some refuse 1 / 0 when they do."""
        return text

    def bitcast(self, text: str, source: DType, goal: DType) -> str:
        raise NotImplementedError

    def exchange(self, op: str, text: str, number: int, dtype: DType) -> str:
        """One of code.SUBGROUP_OPS, where caps.subgroup says that there are neighbours."""
        raise NotImplementedError

    def select(self, condition: str, a: str, b: str) -> str:
        return f"({condition} ? {a} : {b})"

    def guarded(self, condition: str, element: str, other: str) -> str:
        """element where the condition holds; it is not touched elsewhere."""
        return self.select(condition, element, other)

    def operation(self, op: str, dtype: DType, args: Sequence[str], source: DType) -> str:
        """A basic op that is an operator or a function of the language."""
        name = self.functions.get(f"{op}.{SHORT[source.name]}")
        if name is not None:
            return f"{name}({', '.join(args)})"
        if op == "neg":
            zero = f"{self.literal(0, dtype)} " if dtype.kind == "uint" else ""  # -x is not WGSL
            return self._narrowed(f"{zero}- {args[0]}" if zero else f"-{args[0]}", dtype)
        if op == "not":
            return f"(!{args[0]})" if dtype.kind == "bool" else self._narrowed(f"~{args[0]}", dtype)
        a, b = args
        if op in COMPARES or dtype.is_floating_point:
            return f"({a} {_INFIX[op]} {b})"
        return self._whole(op, dtype, a, b)

    def _whole(self, op: str, dtype: DType, a: str, b: str) -> str:
        """Integers: the result wraps to its dtype."""
        overflows = op in ("add", "sub", "mul", "raw_shl") and dtype.kind == "int"
        if overflows and dtype.itemsize >= 4 and not self.wraps:
            twin = uint64 if dtype.itemsize == 8 else uint32
            a, b = self.cast(a, twin), self.cast(b, twin)
            return f"({self.cast(f'({a} {_INFIX[op]} {b})', dtype)})"
        return self._narrowed(f"{a} {_INFIX[op]} {b}", dtype)

    def _narrowed(self, text: str, dtype: DType) -> str:
        """C computes in int at least: back to the narrow type."""
        narrow = dtype.kind in ("int", "uint") and dtype.itemsize < 4
        return f"({self.cast(f'({text})', dtype)})" if narrow else f"({text})"

    # memory -------------------------------------------------------------------------------------

    def load(self, place: str, dtype: DType) -> str:
        return f"({place} != 0)" if dtype.kind == "bool" else place

    def store(self, place: str, value: str, dtype: DType) -> str:
        return f"{place} = {value};"

    def check_index(self, value: str, size: str, site: int) -> str:
        return f"check_index({value}, {size}, {site}, status)"

    # statements ---------------------------------------------------------------------------------

    def declare(self, dtype: DType, name: str, value: str, changes: bool) -> str:
        return f"{'' if changes else 'const '}{self.value_type(dtype)} {name} = {value};"

    def loop(self, name: str, start: str, stop: str, step: str) -> str:
        advance = f"{name}++" if step == "1" else f"{name} += {step}"
        return f"for ({self.value_type(self.index)} {name} = {start}; {name} < {stop}; {advance})"

    def array(self, array: Array) -> str:
        """The declaration of a private or shared array."""
        raise NotImplementedError

    def barrier(self) -> str:
        raise NotImplementedError

    def matrix(self, code: Matrix, at: str) -> list[str]:
        """The lines of a `code.Matrix`, where caps.matrices says that there are units for it."""
        raise NotImplementedError

    def sync(self, kind: str) -> str:
        """The function of the prologue for a `code.Sync`, where caps.progress says there is one."""
        raise NotImplementedError

    # functions ----------------------------------------------------------------------------------

    def function(self, name: str, parameters: Sequence[tuple[str, DType]], result: DType) -> str:
        """The head of a helper function."""
        listed = ", ".join(f"{self.value_type(dtype)} {p}" for p, dtype in parameters)
        return f"{self.helper} {self.value_type(result)} {name}({listed})"

    def kernel_head(self, kernel: Kernel, buffers: Sequence[tuple[str, DType, bool]]) -> list[str]:
        """The lines that open a kernel, up to `{`. buffers: (name, dtype, is it written?)."""
        raise NotImplementedError

    def group_head(self, kernel: Kernel) -> list[str]:
        """The lines that give GROUP and THREAD; a loop over groups opens here."""
        raise NotImplementedError
