"""Scalar expressions over the values of a thread, as operations of MLIR: what CuTe traces.

In: expressions of a tile program, how many values a thread has (`lanes`), what is known of them.
Out: vectors of MLIR. Always true: every operation means what `ir/scalar.py` says, and none is
marked as one that may be changed or joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cutlass
from cutlass import cute
from cutlass._mlir import ir as mlir
from cutlass._mlir.dialects import arith, math, vector

from rushlight.base.dtypes import DType, float32, int64
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr, VarAtom

NUMERIC = {
    "float32": cutlass.Float32, "float16": cutlass.Float16, "bfloat16": cutlass.BFloat16,
    "int32": cutlass.Int32, "int64": cutlass.Int64, "uint32": cutlass.Uint32,
    "bool": cutlass.Boolean,
}  # fmt: skip
STORED = {**NUMERIC, "bool": cutlass.Uint8}
# (floats, signed, unsigned) predicates of comparisons.
_COMPARE = {
    "lt": ("OLT", "slt", "ult"), "le": ("OLE", "sle", "ule"), "gt": ("OGT", "sgt", "ugt"),
    "ge": ("OGE", "sge", "uge"), "eq": ("OEQ", "eq", "eq"), "ne": ("UNE", "ne", "ne"),
}  # fmt: skip
_FLOAT = {
    "add": arith.addf, "sub": arith.subf, "mul": arith.mulf, "div": arith.divf, "neg": arith.negf,
    "fma": math.fma, "sqrt": math.sqrt, "floor": math.floor, "ceil": math.ceil,
    "trunc": math.trunc, "rint": math.roundeven, "abs": math.absf,
}  # fmt: skip
_WHOLE = {
    "add": arith.addi, "sub": arith.subi, "mul": arith.muli, "and": arith.andi, "or": arith.ori,
    "xor": arith.xori, "shl": arith.shli, "abs": math.absi,
}  # fmt: skip


class Values:
    """`known`: expressions (acc, say) and names of axes and sizes that have values already.

    `memory(buffer)` gives a flat tensor of it, `param(name)` a scalar.
    """

    def __init__(
        self, lanes: int, known: Mapping[E | str, Any], memory: Callable[[Any], Any],
        param: Callable[[E], Any],
    ) -> None:  # fmt: skip
        self.lanes, self.memory, self.param = lanes, memory, param
        self.found: dict[E | str, Any] = dict(known)

    def of(self, roots: Sequence[E]) -> list[Any]:
        """The values of expressions; shared parts are computed once."""
        for node in topological(tuple(roots)):
            if node not in self.found:
                self.found[node] = self._node(node)
        return [self.found[root] for root in roots]

    def type(self, dtype: DType) -> Any:
        return mlir.VectorType.get([self.lanes], NUMERIC[dtype.name].mlir_type)

    def full(self, value: Any, dtype: DType) -> Any:
        """A constant, or a scalar, in every lane."""
        return vector.broadcast(self.type(dtype), NUMERIC[dtype.name](value).ir_value())

    def set_axis(self, axis: Any, numbers: Sequence[Any]) -> Any:
        """An axis has these values. Which of them are inside of it (None: all, always); those that
        are not become 0, so that whatever is loaded for them lies in its buffer."""
        own = cute.make_rmem_tensor(self.lanes, cutlass.Int64)
        for number, value in enumerate(numbers):
            own[number] = value
        places = own.load().ir_value()
        less = arith.cmpi(arith.CmpIPredicate.slt, places, self.index(axis.extent))
        self.found[axis.name] = arith.select(less, places, self.full(0, int64))
        return less

    # nodes --------------------------------------------------------------------------------------

    def _node(self, node: E) -> Any:
        args = [self.found[arg] for arg in node.args]
        if node.op == "const":
            return self.full(node.meta[0], node.dtype)
        if node.op == "param":
            return self.full(self.param(node), node.dtype)
        if node.op == "index":
            return self.index(node.meta)
        if node.op == "load":
            return self._load(node, args)
        if node.op == "cast":
            return self._cast(args[0], node.args[0].dtype, node.dtype)
        if node.op == "bitcast":
            return arith.bitcast(self.type(node.dtype), args[0])
        if node.op == "select":
            return arith.select(*args)
        return self._operation(node, args)

    def _operation(self, node: E, args: list[Any]) -> Any:
        source = node.args[0].dtype
        if node.op in _COMPARE:
            return self._compared(node.op, source, args)
        if source.is_floating_point:
            return _FLOAT[node.op](*args)
        if node.op == "neg":
            return arith.subi(self.full(0, source), *args)
        if node.op == "not":
            return arith.xori(args[0], self.full(1 if source.kind == "bool" else -1, source))
        if node.op == "shr":
            return (arith.shrui if source.kind == "uint" else arith.shrsi)(*args)
        if node.op in ("idiv", "irem"):
            return self._divided(node.op, source, *args)
        return _WHOLE[node.op](*args)

    def _compared(self, op: str, source: DType, args: list[Any]) -> Any:
        floats, signed, unsigned = _COMPARE[op]
        if source.is_floating_point:
            return arith.cmpf(getattr(arith.CmpFPredicate, floats), *args)
        which = signed if source.kind == "int" else unsigned
        return arith.cmpi(getattr(arith.CmpIPredicate, which), *args)

    def _divided(self, op: str, dtype: DType, a: Any, b: Any) -> Any:
        """Toward zero; a divisor of 0 gives 0."""
        zero = self.full(0, dtype)
        is_zero = arith.cmpi(arith.CmpIPredicate.eq, b, zero)
        safe = arith.select(is_zero, self.full(1, dtype), b)
        signed, unsigned = {
            "idiv": (arith.divsi, arith.divui), "irem": (arith.remsi, arith.remui),
        }[op]  # fmt: skip
        value = (unsigned if dtype.kind == "uint" else signed)(a, safe)
        return arith.select(is_zero, zero, value)

    def _cast(self, x: Any, source: DType, goal: DType) -> Any:
        kind = self.type(goal)
        if source.is_floating_point and goal.is_floating_point:
            wider = goal.itemsize > source.itemsize
            if not wider and source.itemsize == goal.itemsize:
                return self._cast(self._cast(x, source, float32), float32, goal)
            return (arith.extf if wider else arith.truncf)(kind, x)
        if goal.kind == "bool":
            return self._compared("ne", source, [x, self.full(0, source)])
        if goal.is_floating_point:
            return (arith.sitofp if source.kind == "int" else arith.uitofp)(kind, x)
        if source.is_floating_point:
            return self._truncated(x, source, goal)
        if goal.itemsize == source.itemsize and source.kind != "bool":
            return x
        if goal.itemsize < source.itemsize and source.kind != "bool":
            return arith.trunci(kind, x)
        return (arith.extsi if source.kind == "int" else arith.extui)(kind, x)

    def _truncated(self, x: Any, source: DType, goal: DType) -> Any:
        """NaN and what is out of range give the least number."""
        bits = 8 * goal.itemsize - 1
        if source is not float32:
            x, source = self._cast(x, source, float32), float32
        low = self._compared("ge", source, [x, self.full(-(2.0**bits), source)])
        high = self._compared("lt", source, [x, self.full(2.0**bits, source)])
        least = self.full(-(2**bits), goal)
        return arith.select(arith.andi(low, high), arith.fptosi(self.type(goal), x), least)

    # memory -------------------------------------------------------------------------------------

    def index(self, value: int | Expr) -> Any:
        """An index expression, in int64."""
        if not isinstance(value, Expr):
            return self.full(value, int64)
        total = self.full(value.const, int64)
        for monomial, coef in value.terms:
            part = self.full(coef, int64)
            for atom in monomial:
                part = arith.muli(part, self._atom(atom))
            total = arith.addi(total, part)
        return total

    def _atom(self, atom: Any) -> Any:
        if isinstance(atom, VarAtom):
            if atom.var.kind == "value":
                payload = atom.var.payload
                return self._cast(self.found[payload], payload.dtype, int64)
            return self.found[atom.name]
        a, b = self.index(atom.a), self.index(atom.b)
        operation = {
            "floordiv": arith.floordivsi, "mod": arith.remsi, "min": arith.minsi,
            "max": arith.maxsi,
        }[atom.op]  # fmt: skip
        return operation(a, b)

    def lane(self, value: Any, number: int, dtype: DType) -> Any:
        """One value of a vector, as a number of CuTe."""
        one = vector.extract(value, dynamic_position=[], static_position=[number])
        return NUMERIC[dtype.name](one)

    def _load(self, node: E, args: list[Any]) -> Any:
        buffer, at = node.meta
        memory, place = self.memory(buffer), self.index(at)
        if args:
            place = arith.select(args[0], place, self.full(0, int64))
        found = cute.make_rmem_tensor(self.lanes, STORED[buffer.dtype.name])
        for number in range(self.lanes):
            found[number] = memory[self.lane(place, number, int64)]
        value = found.load().ir_value()
        if buffer.dtype.kind == "bool":
            zero = vector.broadcast(value.type, cutlass.Uint8(0).ir_value())
            value = arith.cmpi(arith.CmpIPredicate.ne, value, zero)
        return arith.select(args[0], value, args[1]) if args else value
