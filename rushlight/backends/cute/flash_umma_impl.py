"""Attention for Blackwell, forward and backward: products and sums in tensor memory (tcgen05).

In: an `Attention` (flash_claims.py), pointers, sizes. Out: what its stores say. Always true: as
flash_impl.py; a thread has one owner, whose row of tensor memory it alone reads and writes.
**Compiled for sm_100a, not run on a GPU.**

    warps 0-3   for each run of the mask, for each 64 others: load a row of the products, make
                weights; sums = sums * shrink with a softmax; store weights beside them
    warp 4      fetch owners; for each tile: fetch the others
    warp 5      for each tile: products = owners @ others.T; when there are weights:
                sums += weights @ others. One thread of it multiplies

Tensor memory: products (64 columns each), weights (32 each: two of 16 bits in one), sums.
"""

import cutlass
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import tcgen05
from cutlass.cute.nvgpu.common import OperandMajorMode
from cutlass.utils import blackwell_helpers as blackwell

from rushlight.backends.cute.chips import tensor_columns
from rushlight.backends.cute.flash_claims import KEYS, STAGES, STEP
from rushlight.backends.cute.launch_impl import Kernels
from rushlight.backends.cute.pairs_impl import ROWS, Pairs, side_of
from rushlight.backends.cute.tiles_impl import (
    MODES,
    allocate,
    attention_tiles,
    bytes_of,
    fetch,
    way,
)  # fmt: skip
from rushlight.backends.cute.umma_impl import (
    ALONE,
    COLUMNS,
    FETCHER,
    MULTIPLIER,
    STORING,
    THREADS,
    from_tensor_cores,
    group,
    layouts_of,
    loads_of,
    parts_of,
    ring_of,
    take_columns,
)  # fmt: skip
from rushlight.base.dtypes import float32

LANE = 1 << 16  # from a row of tensor memory to the next


def product_of(work, number):
    """How a product is multiplied."""
    side = side_of(work)
    modes = [MODES[x[number].is_k_major] for x in (side.owners, side.inners)]
    return blackwell.make_trivial_tiled_mma(
        work.kind, work.kind, *modes, cutlass.Float32, tcgen05.CtaGroup.ONE, (STORING, KEYS)
    )


def sum_of(work, number):
    """How a sum is multiplied: weights are in tensor memory."""
    side = side_of(work)
    return blackwell.make_trivial_tiled_mma(
        work.kind, work.kind, OperandMajorMode.K, MODES[side.others[number].is_k_major],
        cutlass.Float32, tcgen05.CtaGroup.ONE, (STORING, side.results[number]),
        tcgen05.OperandSource.TMEM,
    )  # fmt: skip


def mmas_of(work):
    """How each operand is multiplied."""
    side = side_of(work)
    products = [product_of(work, number) for number in range(len(side.owners))]
    return [*products, *products, *(sum_of(work, number) for number in range(len(side.others)))]


def shared(work, layouts):
    """Memory for a block of owners and for the ring; all that threads wait for."""
    kind, count = work.kind, len(side_of(work).owners)
    tiles = allocate(kind, layouts)
    once = ring_of(bytes_of(kind, layouts[:count]), 1)
    ring = ring_of(bytes_of(kind, layouts[count:]), STAGES)
    products = from_tensor_cores()
    weights = pipeline.PipelineAsyncUmma.create(
        num_stages=1, producer_group=group(STORING), consumer_group=group(),
        cta_layout_vmnk=cute.make_layout(ALONE),
    )  # fmt: skip
    return tiles, once, ring, products, weights


class Columns:
    """Where products, weights and sums are in tensor memory, as numbers of columns."""

    def __init__(self, side):
        self.products = [KEYS * n for n in range(len(side.features))]
        start = KEYS * len(side.features)
        self.weights = [start + KEYS // 2 * n for n in range(len(side.weights))]
        start += KEYS // 2 * len(side.weights)
        self.sums = [start + sum(side.results[:n]) for n in range(len(side.results))]


def rows_at(place, column, count):
    """All rows of some columns, as a tensor of float32."""
    return cute.make_tensor(place + column, cute.make_layout((STORING, count), stride=(LANE, 1)))


class Row:
    """A thread's row: what it loads, what it stores. As Pairs, nothing is carried."""

    def __init__(self, work, place, thread, state):
        self.work, self.side, self.place, self.state = work, side_of(work), place, state
        self.thread, self.columns = thread, Columns(self.side)
        self.is_soft = work.grid.softmax is not None
        state.begin([(thread, number) for number in range(KEYS)])
        for number, count in enumerate(self.side.results):
            self._chunks(number, count, self._clear)
        cute.arch.fence_view_async_tmem_store()

    def __extract_mlir_values__(self):
        return []

    def __new_from_mlir_values__(self, values):
        return self

    def _copy(self, column, count, op):
        """(how, the part of tensor memory) of a copy of `count` columns."""
        tensor = rows_at(self.place, column, count)
        atom = cute.make_copy_atom(op(tcgen05.Repetition(count)), cutlass.Float32)
        tiled = tcgen05.make_tmem_copy(atom, tensor)
        return tiled, tiled.get_slice(self.thread), tensor

    def load(self, column, count):
        """Some columns, in registers; wait before they are used."""
        tiled, mine, tensor = self._copy(column, count, tcgen05.Ld32x32bOp)
        source = mine.partition_S(tensor)
        own = cute.make_rmem_tensor(mine.partition_D(tensor).shape, cutlass.Float32)
        cute.copy(tiled, source, own)
        return own

    def store(self, column, own):
        """Registers to columns; wait before others look."""
        count = cute.size(own)
        tiled, mine, tensor = self._copy(column, count, tcgen05.St32x32bOp)
        to = mine.partition_D(tensor)
        cute.copy(tiled, cute.make_tensor(own.iterator, mine.partition_S(tensor).layout), to)

    def _chunks(self, number, count, do):
        """`do` for the columns of a sum, as many as a thread has in registers at a time."""
        step = COLUMNS if count % COLUMNS == 0 else STEP
        for first in range(0, count, step):
            do(number, self.columns.sums[number] + first, first, step)

    def _clear(self, number, column, first, step):
        own = cute.make_rmem_tensor(step, cutlass.Float32)
        own.fill(0.0)
        self.store(column, own)

    def _shrink(self, number, column, first, step):
        own = self.load(column, step)
        cute.arch.fence_view_async_tmem_load()
        for at in range(step):
            own[at] = own[at] * self.state.shrink[0]
        self.store(column, own)

    def _put(self, number, column, first, step):
        own = self.load(column, step)
        cute.arch.fence_view_async_tmem_load()
        places = [(self.thread, first + at) for at in range(step)]
        self.state.put_sums(number, own, places)

    def weigh(self, tile, first):
        """Some products of a tile, from the other number `first` on, to weights beside the sums."""
        for number, one in enumerate(self._weighed(tile, first)):
            self._weights(number, first, one)

    def _weighed(self, tile, first):
        own = [self.load(column + first, COLUMNS) for column in self.columns.products]
        cute.arch.fence_view_async_tmem_load()
        return self.state.weigh(own, tile, first)

    def soften(self, tile):
        """The products of a tile to probabilities beside the sum, which shrinks."""
        scores = cute.make_rmem_tensor(KEYS, cutlass.Float32)
        values = self.state.values(COLUMNS)
        for first in range(0, KEYS, COLUMNS):
            (found,) = self._weighed(tile, first)
            for number in range(COLUMNS):
                scores[first + number] = values.lane(found, number, float32)
        soft = self.state.soften(scores.load().ir_value(), KEYS)
        self._chunks(0, self.side.results[0], self._shrink)
        self._weights(0, 0, soft)

    def _weights(self, number, first, found):
        """Some weights, from the other number `first` on, to their place."""
        count = found.type.shape[0]
        own, values = cute.make_rmem_tensor(count, self.work.kind), self.state.values(count)
        for at in range(count):
            own[at] = values.lane(found, at, float32).to(self.work.kind)
        self.store(
            self.columns.weights[number] + first // 2, cute.recast_tensor(own, cutlass.Float32)
        )

    def finish(self):
        """All stores."""
        self.state.close()
        for number, count in enumerate(self.side.results):
            self._chunks(number, count, self._put)
        self.state.put_owners([self.state.places[0]])


@cute.jit
def compute(done, giving, row, state):
    """What four warps do."""
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for tile in cutlass.range(low, high, unroll=1):
            products = done.wait_and_advance()
            weights = giving.acquire_and_advance()  # the last tile is added
            if cutlass.const_expr(row.is_soft):
                row.soften(tile)
            else:
                for piece in cutlass.range(KEYS // COLUMNS, unroll=1):
                    row.weigh(tile, piece * COLUMNS)
            cute.arch.fence_view_async_tmem_store()
            products.release()
            weights.commit()
    giving.acquire_and_advance()
    row.finish()


class Factors:
    """What the warp that multiplies knows. As Pairs, nothing is carried."""

    def __init__(self, work, tiles, place):
        side, columns, count = side_of(work), Columns(side_of(work)), len(side_of(work).owners)
        self.work, self.side = work, side
        self.products, self.sums = [], []
        for number in range(count):
            mma = product_of(work, number)
            shape = mma.partition_shape_C((STORING, KEYS))
            acc = cute.make_tensor(
                place + columns.products[number], mma.make_fragment_C(shape).layout
            )
            left, right = (
                mma.make_fragment_A(tiles[number]),
                mma.make_fragment_B(tiles[count + number]),
            )
            self.products.append((acc, left, right))
        for number, n in enumerate(side.results):
            mma = sum_of(work, number)
            shape = mma.partition_shape_C((STORING, n))
            acc = cute.make_tensor(place + columns.sums[number], mma.make_fragment_C(shape).layout)
            layout = mma.make_fragment_A(mma.partition_shape_A((STORING, KEYS))).layout
            start = place + columns.weights[side.weight_of(number)]
            left = cute.make_tensor(cute.recast_ptr(start, dtype=work.kind), layout)
            self.sums.append((acc, left, mma.make_fragment_B(tiles[2 * count + number])))

    def __extract_mlir_values__(self):
        return []

    def __new_from_mlir_values__(self, values):
        return self

    def multiply(self, stage):
        """All products of a tile."""
        for number, (acc, left, right) in enumerate(self.products):
            mma = product_of(self.work, number)
            mma.set(tcgen05.Field.ACCUMULATE, False)
            for piece in range(cute.size(left, mode=[2])):
                a, b = left[None, None, piece, 0], right[None, None, piece, stage]
                cute.gemm(mma, acc, a, b, acc)
                mma.set(tcgen05.Field.ACCUMULATE, True)

    def add(self, stage):
        """All sums of a tile."""
        for number, (acc, left, right) in enumerate(self.sums):
            mma = sum_of(self.work, number)
            mma.set(tcgen05.Field.ACCUMULATE, True)
            for piece in range(KEYS // STEP):
                a, b = left[None, None, piece], right[None, None, piece, stage]
                cute.gemm(mma, acc, a, b, acc)


@cute.jit
def multiply(given, reading, doing, taking, factors, state):
    """What one warp does."""
    owners = given.wait_and_advance()
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for _ in cutlass.range(low, high, unroll=1):
            ready = reading.wait_and_advance()
            products = doing.acquire_and_advance()
            factors.multiply(ready.index)
            products.commit()
            weights = taking.wait_and_advance()
            factors.add(ready.index)
            weights.release()
            ready.release()
    owners.release()
    doing.tail()


@cute.kernel
def attend(
    loads: tuple, wholes: tuple, memories: tuple, numbers: cute.Tensor, sizes: tuple,
    work: cutlass.Constexpr,
):  # fmt: skip
    """128 owners of one element of the batch."""
    side = side_of(work)
    thread, _, _ = cute.arch.thread_idx()
    block, _, batch = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    mmas = mmas_of(work)
    tiles, once, ring, products, weights = shared(work, layouts_of(work, mmas))
    asking, given = once.make_participants()
    filling, reading = ring.make_participants()
    doing, done = products.make_participants()
    giving, taking = weights.make_participants()
    tensor_memory = take_columns(tensor_columns(side.columns))
    place = tensor_memory.retrieve_ptr(cutlass.Float32)
    state = Pairs(work, ROWS, thread, block, batch, memories, numbers, sizes)
    if warp == FETCHER:
        cuts = parts_of(work, mmas, attention_tiles(work, wholes, block, batch))
        ways = [way(*one) for one in zip(loads, cuts, tiles, strict=True)]
        count = len(side.owners)
        fetch(asking, filling, ways[:count], ways[count:], state, True)
    elif warp == MULTIPLIER:
        multiply(given, reading, doing, taking, Factors(work, tiles, place), state)
    else:
        tensor_memory.relinquish_alloc_permit()
        compute(done, giving, Row(work, place, thread, state), state)
    cute.arch.barrier()
    tensor_memory.free(place)


KERNELS = Kernels(
    attend, lambda work, wholes: loads_of(work, mmas_of(work), wholes), lambda work: THREADS
)
