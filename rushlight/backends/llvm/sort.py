"""Sort statements: a stable argsort of one row, by radix.

In: `Sort` (a key expression along one axis). Out: code that stores the int64 positions.
Each element becomes one record, an unsigned integer: the key's order-preserving bits above, the
position below. Records are all different, so any correct sort of them is the stable one.
Long rows: one byte of the key per round, lowest first, all counts taken in one sweep; a byte that
all keys share costs nothing (so narrow ints cost few rounds). Short rows: a record's place is the
number of smaller records.
Rows are shorter than 2**32.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.context import I8, I32, I64, PTR, Env, KernelContext, i64
from rushlight.backends.llvm.ops import splat
from rushlight.backends.llvm.values import Lanes, emit_value
from rushlight.base.dtypes import float32
from rushlight.compiler.tile.ir import Sort
from rushlight.ir.scalar import cast
from rushlight.ir.symint import Expr

SHORT_ROW = 64
BYTE_VALUES = 256


def key_bytes(stmt: Sort) -> int:
    """Bytes of the sorted key; a record is twice as long."""
    return 8 if stmt.key.dtype.itemsize == 8 else 4


def sort_local_bytes(stmt: Sort) -> int | Expr:
    """Scratch of one row: two arrays of records, padded to whole vectors."""
    return (stmt.over.extent + SHORT_ROW) * (4 * key_bytes(stmt))


def emit_sort(
    ctx: KernelContext, builder: ir.IRBuilder, stmt: Sort, env: Env, scratch: ir.Value
) -> None:
    """Sort one row. `scratch`: sort_local_bytes(stmt) bytes, aligned to 16."""
    _SortEmitter(ctx, stmt, env, scratch).emit(builder)


class _SortEmitter:
    def __init__(self, ctx: KernelContext, stmt: Sort, env: Env, scratch: ir.Value) -> None:
        self.ctx, self.stmt, self.env, self.records = ctx, stmt, env, scratch
        self.key_bits = 8 * key_bytes(stmt)
        self.record = ir.IntType(2 * self.key_bits)
        self.counts = ctx.stack_array(I32, self.key_bits // 8 * BYTE_VALUES)
        # Wide records are compared one by one.
        self.lanes = ctx.vector_bytes // 8 if self.key_bits == 32 else 1

    def emit(self, builder: ir.IRBuilder) -> None:
        count = self.ctx.int_expr(builder, self.stmt.over.extent, self.env)
        padded = builder.add(count, i64(SHORT_ROW))
        other = self._record(builder, self.records, padded)
        self._fill(builder, count)
        short = builder.icmp_signed("<=", count, i64(SHORT_ROW))
        with builder.if_else(short) as (then, otherwise):
            with then:
                self._place_by_rank(builder, count, other)
                ranked = builder.block
            with otherwise:
                self._count_bytes(builder, count)
                sorted_ = self._rounds(builder, count, other)
                done = builder.block
        result = builder.phi(PTR)
        result.add_incoming(other, ranked)
        result.add_incoming(sorted_, done)
        self._store(builder, count, result)

    # ---- records -------------------------------------------------------------------------

    def _record(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.record)

    def _load(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.load(self._record(builder, base, at), typ=self.record, align=8)

    def _fill(self, builder: ir.IRBuilder, count: ir.Value) -> None:
        """records[i] = key(i) above i."""
        with self.ctx.for_range(builder, i64(0), count) as at:
            key = builder.zext(self._key(builder, at), self.record)
            place = at if self.key_bits == 32 else builder.zext(at, self.record)
            shifted = builder.shl(key, ir.Constant(self.record, self.key_bits))
            record = builder.or_(shifted, place)
            builder.store(record, self._record(builder, self.records, at), align=8)

    def _key(self, builder: ir.IRBuilder, at: ir.Value) -> ir.Value:
        """The key as an unsigned integer of key_bits that sorts as the statement says."""
        key = self.stmt.key
        dtype = key.dtype
        if dtype.is_floating_point and dtype.itemsize == 2:
            key, dtype = cast(key, float32), float32
        env = {**self.env, self.stmt.over.name: at}
        value = emit_value(self.ctx, builder, key, env, Lanes(), {})
        kind = ir.IntType(self.key_bits)
        if dtype.is_floating_point:
            bits = self._float_bits(builder, value, kind)
        elif dtype.kind == "int":
            wide = value if value.type == kind else builder.sext(value, kind)
            bits = builder.xor(wide, ir.Constant(kind, 1 << (self.key_bits - 1)))
        else:
            bits = value if value.type == kind else builder.zext(value, kind)
        return builder.not_(bits) if self.stmt.descending else bits

    def _float_bits(self, builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
        """Negative: all bits flipped; else the sign bit. -0.0 becomes +0.0, NaN the largest."""
        zero = ir.Constant(value.type, 0.0)
        is_zero = builder.fcmp_ordered("==", value, zero)
        bits = builder.bitcast(builder.select(is_zero, zero, value), kind)
        sign = builder.ashr(bits, ir.Constant(kind, self.key_bits - 1))
        flip = builder.or_(sign, ir.Constant(kind, 1 << (self.key_bits - 1)))
        is_nan = builder.fcmp_unordered("uno", value, value)
        return builder.select(is_nan, ir.Constant(kind, -1), builder.xor(bits, flip))

    def _store(self, builder: ir.IRBuilder, count: ir.Value, result: ir.Value) -> None:
        stmt, ctx = self.stmt, self.ctx
        with ctx.for_range(builder, i64(0), count) as at:
            record = self._load(builder, result, at)
            if self.key_bits == 32:
                place = builder.and_(record, i64(0xFFFFFFFF))
            else:
                place = builder.trunc(record, I64)
            target = ctx.int_expr(builder, stmt.at, {**self.env, stmt.over.name: at})
            pointer = builder.gep(ctx.buffer_pointer(stmt.dest), [target], source_etype=I64)
            builder.store(place, pointer, align=8)

    # ---- short rows ----------------------------------------------------------------------

    def _place_by_rank(self, builder: ir.IRBuilder, count: ir.Value, other: ir.Value) -> None:
        """other[number of records below this one] = this one."""
        lanes, ctx = self.lanes, self.ctx
        largest = ir.Constant(self.record, -1)
        for i in range(lanes - 1):  # fill the last vector with records that are below none
            at = builder.add(count, i64(i))
            builder.store(largest, self._record(builder, self.records, at), align=8)
        vector = ir.VectorType(self.record, lanes) if lanes > 1 else self.record
        ones = ir.VectorType(I64, lanes) if lanes > 1 else I64
        zero = ir.Constant(ones, [0] * lanes if lanes > 1 else 0)
        with ctx.for_range(builder, i64(0), count) as i:
            mine = self._load(builder, self.records, i)
            wide = splat(builder, mine, lanes) if lanes > 1 else mine
            with ctx.for_loop(builder, i64(0), count, lanes, carried=[zero]) as loop:
                pointer = self._record(builder, self.records, loop.index)
                others = builder.load(pointer, typ=vector, align=8)
                below = builder.zext(builder.icmp_unsigned("<", others, wide), ones)
                loop.set_next([builder.add(loop.carried[0], below)])
            (total,) = loop.results
            if lanes > 1:
                parts = [builder.extract_element(total, i64(n)) for n in range(lanes)]
                total = parts[0]
                for part in parts[1:]:
                    total = builder.add(total, part)
            builder.store(mine, self._record(builder, other, total), align=8)

    # ---- long rows -----------------------------------------------------------------------

    def _byte(self, builder: ir.IRBuilder, record: ir.Value, number: ir.Value) -> ir.Value:
        """Byte `number` of the record's key as an i64."""
        shift = builder.add(builder.shl(number, i64(3)), i64(self.key_bits))
        if self.key_bits == 64:
            shift = builder.zext(shift, self.record)
        byte = builder.trunc(builder.lshr(record, shift), I8)
        return builder.zext(byte, I64)

    def _counter(self, builder: ir.IRBuilder, number: ir.Value, byte: ir.Value) -> ir.Value:
        at = builder.add(builder.shl(number, i64(8)), byte)
        return builder.gep(self.counts, [at], source_etype=I32)

    def _count_bytes(self, builder: ir.IRBuilder, count: ir.Value) -> None:
        """counts[byte number][value] for all bytes of the key in one sweep."""
        digits = self.key_bits // 8
        with self.ctx.for_range(builder, i64(0), i64(digits * BYTE_VALUES)) as at:
            pointer = builder.gep(self.counts, [at], source_etype=I32)
            builder.store(ir.Constant(I32, 0), pointer, align=4)
        with self.ctx.for_range(builder, i64(0), count) as at:
            record = self._load(builder, self.records, at)
            for digit in range(digits):
                byte = self._byte(builder, record, i64(digit))
                counter = self._counter(builder, i64(digit), byte)
                old = builder.load(counter, typ=I32, align=4)
                builder.store(builder.add(old, ir.Constant(I32, 1)), counter, align=4)

    def _rounds(self, builder: ir.IRBuilder, count: ir.Value, other: ir.Value) -> ir.Value:
        """One stable distribution per byte that differs; gives where the sorted records are."""
        digits = i64(self.key_bits // 8)
        swap = [self.records, other]
        with self.ctx.for_loop(builder, i64(0), digits, carried=swap) as loop:
            source, target = loop.carried
            first = self._load(builder, source, i64(0))
            counter = self._counter(builder, loop.index, self._byte(builder, first, loop.index))
            same = builder.zext(builder.load(counter, typ=I32, align=4), I64)
            differs = builder.icmp_unsigned("!=", same, count)
            with builder.if_then(differs):
                self._distribute(builder, count, loop.index, source, target)
            loop.set_next(
                [builder.select(differs, target, source), builder.select(differs, source, target)]
            )
        return loop.results[0]

    def _distribute(
        self,
        builder: ir.IRBuilder,
        count: ir.Value,
        digit: ir.Value,
        source: ir.Value,
        target: ir.Value,
    ) -> None:
        ctx = self.ctx
        zero = ir.Constant(I32, 0)
        with ctx.for_loop(builder, i64(0), i64(BYTE_VALUES), carried=[zero]) as loop:
            counter = self._counter(builder, digit, loop.index)
            here = builder.load(counter, typ=I32, align=4)
            builder.store(loop.carried[0], counter, align=4)
            loop.set_next([builder.add(loop.carried[0], here)])
        with ctx.for_range(builder, i64(0), count) as at:
            record = self._load(builder, source, at)
            counter = self._counter(builder, digit, self._byte(builder, record, digit))
            place = builder.load(counter, typ=I32, align=4)
            builder.store(builder.add(place, ir.Constant(I32, 1)), counter, align=4)
            wide = builder.zext(place, I64)
            builder.store(record, self._record(builder, target, wide), align=8)
