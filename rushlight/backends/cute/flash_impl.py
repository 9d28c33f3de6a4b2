"""Attention for Hopper, forward and backward: one warp fetches by TMA, the others multiply (wgmma).

In: an `Attention` (flash_claims.py), pointers, sizes. Out: what its stores say. Always true:
scores, weights, masks and their captured tensors are the tile program's scalar expressions; tiles
of the others that the mask's tables leave out are not fetched; weights are rounded to the dtype of
the operands, as tensor cores take them; a group adds up all of its owners' sums, tile after tile in
ascending order; a query without keys gives 0. **Compiled for sm_90a, not run on a GPU.**

    last warp   fetch owners; for each run of the mask, for each 64 others: fetch their tiles
    the others  for the same: products = owners @ others.T; weights of them (with a softmax:
                new top, shrink; exp(x - top)); sums = sums * shrink + weights @ others
"""

from dataclasses import replace

import cutlass
from cuda.bindings.driver import CUstream
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.nvgpu.common import OperandMajorMode
from cutlass.memory import SmemAllocator
from cutlass.utils import hopper_helpers as hopper

from rushlight.backends.cute.epilogue_impl import number_of
from rushlight.backends.cute.flash_claims import KEYS, STAGES, STEP
from rushlight.backends.cute.gemm_impl import (
    ALIGN,
    MAJORS,
    MODES,
    flat_tensors,
    matrix,
    of_batch,
    way,
)  # fmt: skip
from rushlight.backends.cute.pairs_impl import QUADS, Pairs, side_of
from rushlight.base.dtypes import float32 as FLOAT

WARP = 32


def wholes_of(work, memories, sizes):
    """The operands as tensors over their buffers."""
    batch = number_of(work.batch, sizes)
    return [
        matrix(work, x.matrix, x.rows, x.columns, batch, memories, sizes)
        for x in side_of(work).operands
    ]


def ring_of(bytes_of_a_stage, stages, readers):
    """Stages that the last warp fills and the others read."""
    return pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, readers),
        tx_count=bytes_of_a_stage,
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )


def fetch_tile(place, tile, ways):
    """A tile of some operands is on its way."""
    for load, to, source in ways:
        cute.copy(load, source[None, tile], to[None, place.index], tma_bar_ptr=place.barrier)


@cute.jit
def fetch(asking, filling, owners, others, state, waits: cutlass.Constexpr):
    """What one warp does: owners once, then the others, tile by tile. `waits`: at the end it waits
    until all is read, so that no tensor core tells so after the group has ended."""
    fetch_tile(asking.acquire_and_advance(), 0, owners)
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for tile in cutlass.range(low, high, unroll=1):
            fetch_tile(filling.acquire_and_advance(), tile, others)
    if cutlass.const_expr(waits):
        asking.tail()
        filling.tail()


class Registers:
    """Products, weights and sums of a thread, and the operands they are made of."""

    def __init__(self, work, tiles, thread, state):
        side, count = side_of(work), len(side_of(work).owners)
        self.work, self.side, self.state = work, side, state
        first = [product_of(work, n).get_slice(thread) for n in range(count)]
        self.parts = [
            (
                product_of(work, n).make_fragment_A(mine.partition_A(tiles[n])),
                product_of(work, n).make_fragment_B(mine.partition_B(tiles[count + n])),
            )
            for n, mine in enumerate(first)
        ]
        places = first[0].partition_C(cute.make_identity_tensor((side.rows, KEYS)))
        state.begin(places)
        self.products = [cute.make_rmem_tensor(places.shape, cutlass.Float32) for _ in first]
        # 16 others after 16: the order in which wgmma takes them is that in which it gives them.
        self.weights = [
            cute.make_rmem_tensor(((2, 2, 2), 1, KEYS // STEP), work.kind) for _ in side.weights
        ]
        self.right, self.places, self.sums = [], [], []
        for number, n in enumerate(side.results):
            mine = sum_of(work, number).get_slice(thread)
            tile = tiles[2 * count + number]
            self.right.append(sum_of(work, number).make_fragment_B(mine.partition_B(tile)))
            own = mine.partition_C(cute.make_identity_tensor((side.rows, n)))
            self.places.append(own)
            self.sums.append(cute.make_rmem_tensor(own.shape, cutlass.Float32))
            self.sums[-1].fill(0.0)

    # As Pairs: nothing is carried.
    def __extract_mlir_values__(self):
        return []

    def __new_from_mlir_values__(self, values):
        return self

    def multiply(self, stage):
        """All products of a tile."""
        warpgroup.fence()
        for number, (a, b) in enumerate(self.parts):
            mma = product_of(self.work, number)
            mma.set(warpgroup.Field.ACCUMULATE, False)
            acc = self.products[number]
            for piece in range(cute.size(a, mode=[2])):
                cute.gemm(mma, acc, a[None, None, piece, 0], b[None, None, piece, stage], acc)
                mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)

    def weigh(self, tile):
        """Products become weights, sums shrink."""
        state, lanes = self.state, cute.size(self.products[0])
        found = state.weigh(self.products, tile)
        if self.work.grid.softmax is not None:
            found = [state.soften(found[0], lanes)]
            for number in range(cute.size(self.sums[0])):
                own = state.shrink[QUADS.owner_of(number)]
                self.sums[0][number] = self.sums[0][number] * own
        values = state.values(lanes)
        for weights, one in zip(self.weights, found, strict=True):
            for number in range(cute.size(weights)):
                weights[number] = values.lane(one, number, FLOAT).to(self.work.kind)

    def add(self, stage):
        """All sums of a tile."""
        warpgroup.fence()
        for number, (acc, b) in enumerate(zip(self.sums, self.right, strict=True)):
            mma, a = sum_of(self.work, number), self.weights[self.side.weight_of(number)]
            mma.set(warpgroup.Field.ACCUMULATE, True)
            for piece in range(KEYS // STEP):
                cute.gemm(mma, acc, a[None, None, piece], b[None, None, piece, stage], acc)
        warpgroup.commit_group()
        warpgroup.wait_group(0)

    def finish(self):
        """All stores."""
        self.state.close()
        for number, (sums, places) in enumerate(zip(self.sums, self.places, strict=True)):
            self.state.put_sums(number, sums, places)
        self.state.put_owners([self.state.places[2 * row] for row in range(QUADS.owners)])


@cute.jit
def compute(given, reading, own, state):
    """What the other warps do, for the same tiles."""
    owners = given.wait_and_advance()
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for tile in cutlass.range(low, high, unroll=1):
            ready = reading.wait_and_advance()
            own.multiply(ready.index)
            own.weigh(tile)
            own.add(ready.index)
            ready.release()
    owners.release()
    own.finish()


def product_of(work, number):
    """How a product is multiplied."""
    side = side_of(work)
    modes = [MODES[x[number].is_k_major] for x in (side.owners, side.inners)]
    return hopper.make_trivial_tiled_mma(
        work.kind, work.kind, *modes, cutlass.Float32, (side.rows // 64, 1, 1), (64, KEYS)
    )


def sum_of(work, number):
    """How a sum is multiplied: weights are in registers."""
    side = side_of(work)
    return hopper.make_trivial_tiled_mma(
        work.kind, work.kind, OperandMajorMode.K, MODES[side.others[number].is_k_major],
        cutlass.Float32, (side.rows // 64, 1, 1), (64, side.results[number]),
        warpgroup.OperandSource.RMEM,
    )  # fmt: skip


def layouts_of(work):
    """Where the operands lie in shared memory."""
    side, found = side_of(work), []
    for number, one in enumerate(side.operands):
        which, at = divmod(number, len(side.owners))
        major = MAJORS[one.matrix.is_k_major]
        if which < 2:
            tile = (side.rows, KEYS, side.features[at])
        else:
            at = number - 2 * len(side.owners)
            tile = (side.rows, side.results[at], KEYS)
        make = hopper.make_smem_layout_a if which == 0 else hopper.make_smem_layout_b
        found.append(make(major, tile, work.kind, one.stages))
    return found


def shared(work, layouts):
    """Memory for a block of owners and for the ring; what guards them."""
    memory, kind, readers = SmemAllocator(), work.kind, side_of(work).rows // 16
    tiles = [memory.allocate_tensor(kind, x.outer, ALIGN, x.inner) for x in layouts]
    count = len(side_of(work).owners)
    sizes = [cute.size_in_bytes(kind, cute.slice_(x, (None, None, 0))) for x in layouts]
    return (
        tiles, ring_of(sum(sizes[:count]), 1, readers),
        ring_of(sum(sizes[count:]), STAGES, readers),
    )  # fmt: skip


def cuts_of(work, wholes, block, batch):
    """The operands of one element of the batch, cut into tiles."""
    side, found = side_of(work), []
    for number, (one, x) in enumerate(zip(side.operands, wholes, strict=True)):
        where = (block, None) if one.stages == 1 else (None, 0)
        if number >= 2 * len(side.owners):
            where = (0, None)
        found.append(cute.local_tile(of_batch(x, one.matrix, batch), one.tile, where))
    return found


@cute.kernel
def attend(
    loads: tuple, wholes: tuple, memories: tuple, numbers: cute.Tensor, sizes: tuple,
    work: cutlass.Constexpr,
):  # fmt: skip
    """`rows` owners of one element of the batch."""
    side = side_of(work)
    thread, _, _ = cute.arch.thread_idx()
    block, _, batch = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tiles, once, ring = shared(work, layouts_of(work))
    asking, given = once.make_participants()
    filling, reading = ring.make_participants()
    cuts = cuts_of(work, wholes, block, batch)
    ways = [way(*one) for one in zip(loads, cuts, tiles, strict=True)]
    count = len(side.owners)
    state = Pairs(work, QUADS, thread, block, batch, memories, numbers, sizes)
    if warp == side.rows // 16:
        fetch(asking, filling, ways[:count], ways[count:], state, False)
    else:
        compute(given, reading, Registers(work, tiles, thread, state), state)


@cute.jit
def launch_side(
    memories: tuple, numbers: cute.Pointer, sizes: tuple, stream: CUstream,
    work: cutlass.Constexpr,
):  # fmt: skip
    """Launches `attend` for every block of owners."""
    side, known = side_of(work), dict(zip(work.size_names, sizes, strict=False))
    wholes = wholes_of(work, memories, known)
    load, loads, coordinates = cpasync.CopyBulkTensorTileG2SOp(), [], []
    for one, x, layout in zip(side.operands, wholes, layouts_of(work), strict=True):
        part = cute.slice_(layout, (None, None, 0))
        atom, tensor = cpasync.make_tiled_tma_atom(load, x, part, one.tile)
        loads.append(atom)
        coordinates.append(tensor)
    flat, words = flat_tensors(work, memories, numbers, known)
    attend(tuple(loads), tuple(coordinates), flat, words, sizes, work).launch(
        grid=(cute.ceil_div(wholes[0].shape[0], side.rows), 1, number_of(work.batch, known)),
        block=(2 * side.rows + WARP, 1, 1), stream=stream,
    )  # fmt: skip


@cute.jit
def launch(
    memories: tuple, numbers: cute.Pointer, sizes: tuple, stream: CUstream,
    work: cutlass.Constexpr,
):  # fmt: skip
    """Launches the kernel of each side, one after the other."""
    for side in cutlass.range_constexpr(len(work.sides)):
        launch_side(memories, numbers, sizes, stream, replace(work, side=work.sides[side]))
