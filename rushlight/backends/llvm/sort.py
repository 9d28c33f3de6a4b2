"""Sort statements: a stable argsort of one row, by radix.

In: `Sort` (a key expression along one axis). Out: code that stores the int64 positions.
Each element becomes one record, an unsigned integer: the key's order-preserving bits above, the
position below. Records are all different, so any correct sort of them is the stable one.
Long rows: one byte of the key per round, lowest first, all counts taken in one sweep; a byte that
all keys share costs nothing (so narrow ints cost few rounds). Short rows: a record's place is the
number of smaller records.
Where only the first few positions are asked for, elements behind the last of those held so far are
not kept at all: `HELD` times as many fit before they are sorted and cut again.
Rows are shorter than 2**32.
"""

from __future__ import annotations

from llvmlite import ir

from rushlight.backends.llvm.context import I1, I8, I32, I64, PTR, Env, KernelContext, i64
from rushlight.backends.llvm.lanes import Lanes
from rushlight.backends.llvm.memory import any_lane
from rushlight.backends.llvm.ops import constant, splat, with_lanes
from rushlight.backends.llvm.values import emit_value
from rushlight.base.dtypes import float32
from rushlight.compiler.tile.ir import Sort
from rushlight.ir.scalar import cast
from rushlight.ir.symint import Expr

SHORT_ROW = 64
BYTE_VALUES = 256
# Of `first` elements so many times are held, and at least so many.
HELD = 6
LEAST_HELD = 64
# The first limit comes from so many groups for each of `first`, of so many elements at least.
GROUPS = 2
LEAST_GROUP = 8


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
        if self.stmt.first is not None:
            first = self.ctx.int_expr(builder, self.stmt.first, self.env)
            result = self._select(builder, count, first, other)
            self._store(builder, first, result)
            return
        self._fill(builder, count)
        self._store(builder, count, self._sort(builder, count, other))

    def _sort(self, builder: ir.IRBuilder, count: ir.Value, other: ir.Value) -> ir.Value:
        """Sort the first `count` records; where they lie then, here or in `other`."""
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
        return result

    # ---- the first few -------------------------------------------------------------------

    def _select(
        self, builder: ir.IRBuilder, count: ir.Value, first: ir.Value, other: ir.Value
    ) -> ir.Value:
        """Where the `first` smallest records lie, sorted. A row goes by in blocks; a block without
        any key below the limit costs a comparison. Turn -1 finds the first limit: the `first`-th
        of the smallest keys of groups. The last turn has no elements: it sorts."""
        block = self.ctx.vector_bytes * 8 // self.key_bits
        groups = builder.mul(
            builder.udiv(builder.add(first, i64(block - 1)), i64(block)), i64(block)
        )
        groups = builder.mul(groups, i64(GROUPS))
        enough = builder.icmp_signed(">=", count, builder.mul(groups, i64(LEAST_GROUP)))
        enough = builder.and_(enough, builder.icmp_signed(">", first, i64(0)))
        with builder.if_then(enough):
            self._group_smallest(builder, count, groups, block)
        most = builder.mul(first, i64(HELD))
        most = builder.select(
            builder.icmp_signed(">", most, i64(LEAST_HELD)), most, i64(LEAST_HELD)
        )
        blocks = builder.sdiv(builder.add(count, i64(block - 1)), i64(block))
        none = ir.Constant(self.record, 1 << self.key_bits)
        start = builder.select(enough, i64(-1), i64(0))
        carried = [builder.select(enough, groups, i64(0)), none, self.records]
        with self.ctx.for_loop(
            builder, start, builder.add(blocks, i64(1)), carried=carried
        ) as loop:
            held, limit, result = loop.carried
            held = self._keep_block(builder, loop.index, count, block, (held, limit))
            is_first = builder.icmp_signed("<", loop.index, i64(0))
            is_last = builder.icmp_signed("==", loop.index, blocks)
            is_full = builder.icmp_signed(">", builder.add(held, i64(block)), most)
            before = builder.block
            with builder.if_then(builder.or_(builder.or_(is_first, is_last), is_full)):
                sorted_ = self._sort(builder, held, other)
                cut = builder.select(builder.icmp_signed("<", first, held), first, held)
                new_limit = self._cut(builder, sorted_, cut, first)
                one_more = builder.add(new_limit, ir.Constant(self.record, 1))
                new_limit = builder.select(is_first, one_more, new_limit)
                cut = builder.select(is_first, i64(0), cut)
                after = builder.block
            values = [(held, cut), (limit, new_limit), (result, sorted_)]
            loop.set_next([_joined(builder, pair, (before, after)) for pair in values])
        return loop.results[2]

    def _group_smallest(
        self, builder: ir.IRBuilder, count: ir.Value, groups: ir.Value, block: int
    ) -> None:
        """records[g] = the smallest key of elements g, g + groups, ..., above g."""
        kind = ir.IntType(self.key_bits)
        wide = ir.VectorType(kind, block) if block > 1 else kind
        smallest = self._record(builder, self.records, groups)
        largest = constant(wide, -1)
        end = builder.sub(count, i64(block - 1))
        with self.ctx.for_range(builder, i64(0), groups, block) as group:
            with self.ctx.for_loop(builder, group, end, groups, carried=[largest]) as loop:
                (old,) = loop.carried
                keys = self._key(builder, loop.index, block)
                keys = splat(builder, keys, block) if keys.type != wide else keys
                loop.set_next([builder.select(builder.icmp_unsigned("<", keys, old), keys, old)])
            place = builder.gep(smallest, [group], source_etype=kind)
            builder.store(loop.results[0], place, align=self.key_bits // 8)
        with self.ctx.for_range(builder, i64(0), groups) as group:
            place = builder.gep(smallest, [group], source_etype=kind)
            key = builder.load(place, typ=kind, align=self.key_bits // 8)
            record = self._as_record(builder, builder.zext(key, self.record), group)
            builder.store(record, self._record(builder, self.records, group), align=8)

    def _cut(
        self, builder: ir.IRBuilder, source: ir.Value, kept: ir.Value, first: ir.Value
    ) -> ir.Value:
        """Move the records that are kept to where more are put; what a key must be below now."""
        with self.ctx.for_range(builder, i64(0), kept) as at:
            record = self._load(builder, source, at)
            builder.store(record, self._record(builder, self.records, at), align=8)
        some = builder.icmp_signed(">", kept, i64(0))
        at = builder.select(some, builder.sub(kept, i64(1)), i64(0))
        width = ir.Constant(self.record, self.key_bits)
        last = builder.lshr(self._load(builder, self.records, at), width)
        none = ir.Constant(self.record, 1 << self.key_bits)
        return builder.select(builder.icmp_signed("==", kept, first), last, none)

    def _keep_block(
        self, builder: ir.IRBuilder, turn: ir.Value, count: ir.Value, block: int,
        state: tuple[ir.Value, ir.Value],
    ) -> ir.Value:  # fmt: skip
        """Append the records of a block whose keys are below the limit; how many are held then."""
        held, limit = state
        start = builder.mul(turn, i64(block))
        end = builder.add(start, i64(block))
        whole = builder.icmp_signed("<=", end, count)
        is_there = builder.icmp_signed(">=", turn, i64(0))
        stop = builder.select(is_there, builder.select(whole, end, count), start)
        kind = ir.IntType(self.key_bits)
        open_ = builder.icmp_unsigned(
            ">", limit, ir.Constant(self.record, (1 << self.key_bits) - 1)
        )
        before = builder.block
        looks = builder.and_(builder.and_(whole, is_there), builder.not_(open_))
        with builder.if_then(looks):
            keys, low = self._key(builder, start, block), builder.trunc(limit, kind)
            low = splat(builder, low, block) if isinstance(keys.type, ir.VectorType) else low
            below = builder.icmp_unsigned("<", keys, low)
            none_here = builder.not_(any_lane(builder, below))
            after = builder.block
        skip = _joined(builder, (ir.Constant(I1, 0), none_here), (before, after))
        stop = builder.select(skip, start, stop)
        with self.ctx.for_loop(builder, start, stop, carried=[held]) as loop:
            (now,) = loop.carried
            key = builder.zext(self._key(builder, loop.index), self.record)
            record = self._as_record(builder, key, loop.index)
            builder.store(record, self._record(builder, self.records, now), align=8)
            is_below = builder.icmp_unsigned("<", key, limit)
            loop.set_next([builder.add(now, builder.zext(is_below, I64))])
        return loop.results[0]

    # ---- records -------------------------------------------------------------------------

    def _record(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.gep(base, [at], source_etype=self.record)

    def _load(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> ir.Value:
        return builder.load(self._record(builder, base, at), typ=self.record, align=8)

    def _fill(self, builder: ir.IRBuilder, count: ir.Value) -> None:
        """records[i] = key(i) above i."""
        with self.ctx.for_range(builder, i64(0), count) as at:
            key = builder.zext(self._key(builder, at), self.record)
            record = self._as_record(builder, key, at)
            builder.store(record, self._record(builder, self.records, at), align=8)

    def _as_record(self, builder: ir.IRBuilder, key: ir.Value, at: ir.Value) -> ir.Value:
        place = at if self.key_bits == 32 else builder.zext(at, self.record)
        shifted = builder.shl(key, ir.Constant(self.record, self.key_bits))
        return builder.or_(shifted, place)

    def _key(self, builder: ir.IRBuilder, at: ir.Value, lanes: int = 1) -> ir.Value:
        """The key as an unsigned integer of key_bits that sorts as the statement says; or of
        `lanes` elements from `at` on."""
        key = self.stmt.key
        dtype = key.dtype
        if dtype.is_floating_point and dtype.itemsize == 2:
            key, dtype = cast(key, float32), float32
        env = {**self.env, self.stmt.over.name: at}
        where = Lanes() if lanes == 1 else Lanes(lanes, self.stmt.over)
        value = emit_value(self.ctx, builder, key, env, where, {})
        kind = with_lanes(ir.IntType(self.key_bits), value.type)
        if dtype.is_floating_point:
            bits = self._float_bits(builder, value, kind)
        elif dtype.kind == "int":
            wide = value if value.type == kind else builder.sext(value, kind)
            bits = builder.xor(wide, constant(kind, 1 << (self.key_bits - 1)))
        else:
            bits = value if value.type == kind else builder.zext(value, kind)
        return builder.not_(bits) if self.stmt.descending else bits

    def _float_bits(self, builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
        """Negative: all bits flipped; else the sign bit. -0.0 becomes +0.0, NaN the largest."""
        zero = constant(value.type, 0.0)
        is_zero = builder.fcmp_ordered("==", value, zero)
        bits = builder.bitcast(builder.select(is_zero, zero, value), kind)
        sign = builder.ashr(bits, constant(kind, self.key_bits - 1))
        flip = builder.or_(sign, constant(kind, 1 << (self.key_bits - 1)))
        is_nan = builder.fcmp_unordered("uno", value, value)
        return builder.select(is_nan, constant(kind, -1), builder.xor(bits, flip))

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


def _joined(
    builder: ir.IRBuilder, values: tuple[ir.Value, ir.Value], blocks: tuple[ir.Block, ir.Block]
) -> ir.Value:
    phi = builder.phi(values[0].type)
    for value, block in zip(values, blocks, strict=True):
        phi.add_incoming(value, block)
    return phi
