"""Scalar expressions to LLVM values: one lane, or `count` lanes along an axis."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from rushlight.backends.llvm import memory
from rushlight.backends.llvm.casts import emit_bitcast, emit_cast
from rushlight.backends.llvm.context import I64, Env, KernelContext, i64, value_type
from rushlight.backends.llvm.lanes import Cache, Lanes
from rushlight.backends.llvm.loads import LoadEmitter
from rushlight.backends.llvm.ops import OPS, Op, constant, constant_payload
from rushlight.ir.scalar import E, children


def emit_value(
    ctx: KernelContext,
    builder: ir.IRBuilder,
    e: E,
    env: Env,
    lanes: Lanes,
    cache: Cache,
    leaves: dict[E, ir.Value] | None = None,
) -> ir.Value:
    """The value of `e`: a vector <lanes.count x T>, or a scalar when count is 1.

    cache   what is known in this block for this env and these lanes (start with {})
    leaves  values of expressions that are already there (such as scalar.acc)
    """
    return ValueEmitter(ctx, builder, env, lanes, cache, leaves).full(e)


class ValueEmitter(LoadEmitter):
    """Emits expressions at one place: a builder, an env and lanes."""

    def __init__(
        self,
        ctx: KernelContext,
        builder: ir.IRBuilder,
        env: Env,
        lanes: Lanes,
        cache: Cache,
        leaves: dict[E, ir.Value] | None = None,
    ) -> None:
        super().__init__(ctx, builder, env, lanes, cache)
        if leaves:
            cache.update(leaves)

    def full(self, e: E) -> ir.Value:
        """The value with all lanes."""
        return self.spread(self.value(e))

    def value(self, e: E) -> ir.Value:
        """The value; a scalar if it is the same in all lanes."""
        stack = [e]
        while stack:
            node = stack[-1]
            if node in self.cache:
                stack.pop()
                continue
            missing = [c for c in children(node) if c not in self.cache]
            if missing:
                stack.extend(missing)
                continue
            self.cache[node] = self._emit(node)
            stack.pop()
        return self.cache[e]

    def _emit(self, node: E) -> ir.Value:
        if node.op == "const":
            return ir.Constant(value_type(node.dtype), constant_payload(node))
        if node.op == "param":
            return self.ctx.param(node.meta)
        if node.op == "index":
            return self.index_value(node.meta)
        if node.op in ("load", "local"):
            return self.load(node)
        if node.op == "check_index":
            return self._check(node)
        if node.op == "cast":
            return self._pure(emit_cast, node)
        if node.op == "bitcast":
            return self._pure(emit_bitcast, node)
        if node.op not in OPS:
            raise TypeError(
                f"{self.ctx.program.name}: the llvm backend got the op {node.op!r}; math ops are "
                "expanded to basic ops before (decompose_math), and acc needs a value in `leaves`"
            )
        return self._pure(OPS[node.op], node)

    def _pure(self, emit: Any, node: E) -> ir.Value:
        args = [self.cache[a] for a in node.args]
        if any(isinstance(a.type, ir.VectorType) for a in args):
            keep_condition = node.op == "select" and not isinstance(args[0].type, ir.VectorType)
            args = [a if keep_condition and n == 0 else self.spread(a) for n, a in enumerate(args)]
        source = node.args[0].dtype
        key = (node.op, node.dtype, source, *args)
        return self.numbered(
            key, args, lambda b: emit(Op(b, tuple(args), node.dtype, source, self.ctx.target))
        )

    def _check(self, node: E) -> ir.Value:
        """0 where the index is out of range, and the site number into the status word."""
        size, site = node.meta
        value = self.cache[node.args[0]]
        wide = self.as_i64(value, node.args[0].dtype)
        limit = self.index_value(size)
        if isinstance(wide.type, ir.VectorType):
            limit = self.spread(limit)
        mask = self.lanes.mask if isinstance(wide.type, ir.VectorType) else None

        def emit(b: ir.IRBuilder) -> ir.Value:
            bad = b.icmp_unsigned(">=", wide, limit)
            live = bad if mask is None else b.and_(bad, mask)
            failed = memory.any_lane(b, live)
            status = b.load(self.ctx.args.status, typ=I64, align=8)
            b.store(b.select(failed, i64(site), status), self.ctx.args.status, align=8)
            return b.select(bad, constant(value.type, 0), value)

        inputs = [value, limit] if mask is None else [value, limit, mask]
        return self.numbered(("check", site, *inputs), inputs, emit)
