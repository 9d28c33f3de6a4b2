"""A product for Hopper: TMA fills a ring of tiles in shared memory, warp groups multiply (wgmma).

In: a `Product` (claims.py), pointers to its buffers, its sizes. Out: what its stores say. Always
true: what lies outside of the matrices is 0 (TMA) and is not stored; sums are float32; the tile
program's scalar expressions are the epilogue. **Compiled for sm_90a, not run on a GPU.** cutlass
is imported here: whoever wants the kernel loads this file.

    warp 0      fill `stages` tiles ahead; after each product, one more
    two groups  wait for a tile; acc += a_tile @ b_tile.T; give the tile back
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warpgroup
from cutlass.utils import hopper_helpers as hopper

from rushlight.backends.cute.epilogue_impl import finish
from rushlight.backends.cute.launch_impl import Kernels
from rushlight.backends.cute.tiles_impl import (
    MODES,
    WARP,
    allocate,
    bytes_of,
    fill,
    tiles_along_k,
    way,
)  # fmt: skip
from rushlight.backends.cute.wgmma_impl import layouts_of, loads_of, ring_of

GROUPS = 2  # warp groups of 128 threads, each with half of the rows
THREADS = 128 * GROUPS


def product_of(work):
    """How it is multiplied."""
    modes = [MODES[one.matrix.is_k_major] for one in work.operands]
    return hopper.make_trivial_tiled_mma(
        work.kind, work.kind, *modes, cutlass.Float32, (GROUPS, 1, 1), (64, work.chip.bn)
    )


def factors_of(mma, mine, tiles):
    """What a thread's multiplications take of both operands' tiles."""
    return (
        mma.make_fragment_A(mine.partition_A(tiles[0])),
        mma.make_fragment_B(mine.partition_B(tiles[1])),
    )


@cute.kernel
def product(
    loads: tuple, wholes: tuple, memories: tuple, numbers: cute.Tensor, sizes: tuple,
    work: cutlass.Constexpr,
):  # fmt: skip
    """One tile of one product. `work`: what is multiplied and stored."""
    chip = work.chip
    thread, _, _ = cute.arch.thread_idx()
    row, column, batch = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    layouts = layouts_of(work)
    tiles = allocate(work.kind, layouts)
    ring = ring_of(bytes_of(work.kind, layouts), chip.stages, THREADS // WARP)
    filling, reading = ring.make_participants()
    cuts = tiles_along_k(work, wholes, (row, column), batch)
    ways = [way(*one) for one in zip(loads, cuts, tiles, strict=True)]
    mma = product_of(work)
    mine = mma.get_slice(thread)
    parts_a, parts_b = factors_of(mma, mine, tiles)
    places = mine.partition_C(cute.make_identity_tensor((chip.bm, chip.bn)))
    acc = cute.make_rmem_tensor(places.shape, cutlass.Float32)
    turns = cute.size(ways[0][2], mode=[1])
    ahead = cutlass.min(chip.stages, turns)
    if warp == 0:
        for _ in cutlass.range(ahead, unroll=1):
            place = filling.acquire_and_advance()
            fill(place, place.count, ways)
    mma.set(warpgroup.Field.ACCUMULATE, False)
    for turn in cutlass.range(turns, unroll=1):
        ready = reading.wait_and_advance()
        warpgroup.fence()
        for piece in cutlass.range_constexpr(cute.size(parts_a, mode=[2])):
            at = (None, None, piece, ready.index)
            cute.gemm(mma, acc, parts_a[at], parts_b[at], acc)
            mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        ready.release()
        if warp == 0 and turn + ahead < turns:
            place = filling.acquire_and_advance()
            fill(place, place.count, ways)
    finish(work, acc, places, (row, column, batch), memories, numbers, sizes)


KERNELS = Kernels(product, loads_of, lambda work: THREADS)
