"""Index polynomials to i64 values: a vector where the lanes differ, else a scalar."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import llvmlite.ir as ir

from rushlight.backends.llvm.context import I64, Env, IndexEmitter, KernelContext, i64
from rushlight.backends.llvm.lanes import Cache, Lanes, LanesEmitter
from rushlight.backends.llvm.linear import Linear, repeat_of, split_by_lane
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, OpAtom, make_polynomial
from rushlight.ir.symint_walk import variables


class LaneIndexEmitter(LanesEmitter, ABC):
    """Emits indices at one place; `value` gives what is loaded for them."""

    def __init__(
        self, ctx: KernelContext, builder: ir.IRBuilder, env: Env, lanes: Lanes, cache: Cache
    ) -> None:
        super().__init__(ctx, builder, env, lanes, cache)
        self.index = IndexEmitter(ctx, builder, env, self._uniform_index)

    @abstractmethod
    def value(self, e: E) -> ir.Value:
        """The value of an expression; a scalar if it is the same in all lanes."""

    def index_value(self, expr: int | Expr) -> ir.Value:
        """An index expression as i64: a vector if it differs between the lanes."""
        linear = self.linear(expr)
        base = self.index.emit(linear.base)
        if linear.extra is None and linear.stride == 0:
            return base
        return self.index_vector(base, linear)

    def index_vector(self, base: ir.Value, linear: Linear) -> ir.Value:
        count = self.lanes.count
        total = self.spread(base)
        if linear.stride != 0:
            steps = ir.Constant(ir.VectorType(I64, count), list(range(count)))
            if linear.stride != 1:
                steps = self.vector_op("mul", steps, self.spread(self.index.emit(linear.stride)))
            total = self.vector_op("add", total, steps)
        if linear.extra is not None:
            total = self.vector_op("add", total, linear.extra)
        return total

    def linear(self, expr: int | Expr) -> Linear:
        """An index expression split by how it depends on the lane."""
        lanes = self.lanes
        if not isinstance(expr, Expr) or lanes.axis is None or lanes.count == 1:
            return Linear(expr, 0, None)
        parts = split_by_lane(expr, lanes.axis.name, lanes.count, lanes.aligned, self._varies)
        extra = None
        if parts.pattern:
            extra = ir.Constant(ir.VectorType(I64, lanes.count), list(parts.pattern))
        for monomial, coef in parts.rest.items():
            term = self._vector_term(monomial, coef)
            extra = term if extra is None else self.vector_op("add", extra, term)
        unit = parts.stride.pop((), 0)
        base = make_polynomial(parts.base, expr.const)
        repeat = 0 if parts.rest else repeat_of(parts.pattern)
        return Linear(base, make_polynomial(parts.stride, unit), extra, repeat)

    def _varies(self, atom: Any) -> bool:
        if isinstance(atom, OpAtom):
            inner = {**variables(atom.a), **variables(atom.b)}
            return any(self._varies(v.atom) for v in inner.values())
        if atom.var.kind == "value":
            return isinstance(self.value(atom.var.payload).type, ir.VectorType)
        return self.lanes.axis is not None and atom.name == self.lanes.axis.name

    def _vector_term(self, monomial: tuple, coef: int) -> ir.Value:
        product = self.spread(i64(coef))
        for atom in monomial:
            product = self.vector_op("mul", product, self.spread(self._vector_atom(atom)))
        return product

    def _vector_atom(self, atom: Any) -> ir.Value:
        if isinstance(atom, OpAtom):
            a, b = (self.spread(self.index_value(x)) for x in (atom.a, atom.b))
            return self.vector_op(atom.op, a, b)
        if atom.var.kind == "value":
            return self.as_i64(self.value(atom.var.payload), atom.var.payload.dtype)
        return self.index_value(atom.var)

    def _uniform_index(self, payload: E) -> ir.Value:
        return self.as_i64(self.value(payload), payload.dtype)
