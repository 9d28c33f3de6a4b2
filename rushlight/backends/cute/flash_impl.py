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

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warpgroup
from cutlass.cute.nvgpu.common import OperandMajorMode
from cutlass.utils import hopper_helpers as hopper

from rushlight.backends.cute.flash_claims import KEYS, STAGES, STEP
from rushlight.backends.cute.launch_impl import Kernels
from rushlight.backends.cute.pairs_impl import QUADS, Pairs, side_of
from rushlight.backends.cute.tiles_impl import (
    MODES,
    WARP,
    allocate,
    attention_tiles,
    bytes_of,
    fetch,
    way,
)  # fmt: skip
from rushlight.backends.cute.wgmma_impl import layouts_of, loads_of, ring_of
from rushlight.base.dtypes import float32 as FLOAT


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


def shared(work, layouts):
    """Memory for a block of owners and for the ring; what guards them."""
    side, kind = side_of(work), work.kind
    count, readers = len(side.owners), side.rows // 16
    return (
        allocate(kind, layouts), ring_of(bytes_of(kind, layouts[:count]), 1, readers),
        ring_of(bytes_of(kind, layouts[count:]), STAGES, readers),
    )  # fmt: skip


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
    cuts = attention_tiles(work, wholes, block, batch)
    ways = [way(*one) for one in zip(loads, cuts, tiles, strict=True)]
    count = len(side.owners)
    state = Pairs(work, QUADS, thread, block, batch, memories, numbers, sizes)
    if warp == side.rows // 16:
        fetch(asking, filling, ways[:count], ways[count:], state, False)
    else:
        compute(given, reading, Registers(work, tiles, thread, state), state)


KERNELS = Kernels(attend, loads_of, lambda work: 2 * side_of(work).rows + WARP)
