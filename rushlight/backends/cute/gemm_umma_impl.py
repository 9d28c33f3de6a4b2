"""A product for Blackwell: TMA fills a ring of tiles, one thread multiplies (tcgen05), the sums are
in tensor memory.

In: a `Product` (claims.py), pointers to its buffers, its sizes. Out: what its stores say. Always
true: what lies outside of the matrices is 0 (TMA) and is not stored; sums are float32; tensor
memory is given back by the warp that took it; the tile program's scalar expressions are the
epilogue. **Compiled for sm_100a, not run on a GPU.**

    warps 0-3   wait for the sums; row by row, some columns at a time: load them, store results
    warp 4      fill the ring, `stages` tiles ahead
    warp 5      wait for a tile; acc += a_tile @ b_tile.T; when that is done, the tile is free
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import tcgen05
from cutlass.utils import blackwell_helpers as blackwell

from rushlight.backends.cute.chips import tensor_columns
from rushlight.backends.cute.epilogue_impl import finish
from rushlight.backends.cute.launch_impl import Kernels
from rushlight.backends.cute.tiles_impl import MODES, allocate, bytes_of, fill, tiles_along_k, way
from rushlight.backends.cute.umma_impl import (
    COLUMNS,
    FETCHER,
    MULTIPLIER,
    THREADS,
    from_tensor_cores,
    layouts_of,
    loads_of,
    parts_of,
    ring_of,
    take_columns,
)  # fmt: skip


def product_of(work):
    """How it is multiplied."""
    modes, chip = [MODES[one.matrix.is_k_major] for one in work.operands], work.chip
    return blackwell.make_trivial_tiled_mma(
        work.kind, work.kind, *modes, cutlass.Float32, tcgen05.CtaGroup.ONE, (chip.bm, chip.bn)
    )


def mmas_of(work):
    """How each operand is multiplied: together."""
    return [product_of(work)] * len(work.operands)


@cute.jit
def multiply(mma, acc, parts_a, parts_b, turns, reading, finishing):
    """What one warp does: each tile of the ring is added to the sums."""
    sums = finishing.acquire_and_advance()
    mma.set(tcgen05.Field.ACCUMULATE, False)
    for _ in cutlass.range(turns, unroll=1):
        ready = reading.wait_and_advance()
        for piece in cutlass.range_constexpr(cute.size(parts_a, mode=[2])):
            at = (None, None, piece, ready.index)
            cute.gemm(mma, acc, parts_a[at], parts_b[at], acc)
            mma.set(tcgen05.Field.ACCUMULATE, True)
        ready.release()
    sums.commit()


@cute.jit
def store(work, acc, thread, block, memories, numbers, sizes):
    """A thread's row of the sums, COLUMNS at a time."""
    chip = work.chip
    flat = cute.make_tensor(acc.iterator, cute.make_layout(
        (chip.bm, chip.bn), stride=(acc.stride[0][0], acc.stride[0][1])
    ))  # fmt: skip
    pieces = cute.flat_divide(flat, (chip.bm, COLUMNS))
    load = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(COLUMNS)), cutlass.Float32)
    tiled = tcgen05.make_tmem_copy(load, pieces[None, None, 0, 0])
    mine = tiled.get_slice(thread)
    sources = mine.partition_S(pieces)
    whole = cute.make_identity_tensor((chip.bm, chip.bn))
    places = mine.partition_D(cute.flat_divide(whole, (chip.bm, COLUMNS)))
    for piece in cutlass.range(chip.bn // COLUMNS, unroll=1):
        at = (None, None, None, 0, piece)
        own = cute.make_rmem_tensor(places[at].shape, cutlass.Float32)
        cute.copy(tiled, sources[at], own)
        cute.arch.fence_view_async_tmem_load()
        finish(work, own, places[at], block, memories, numbers, sizes)


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
    mma, mmas = product_of(work), mmas_of(work)
    layouts = layouts_of(work, mmas)
    tiles = allocate(work.kind, layouts)
    ring, done = ring_of(bytes_of(work.kind, layouts), chip.stages), from_tensor_cores()
    filling, reading = ring.make_participants()
    finishing, storing = done.make_participants()
    tensor_memory = take_columns(tensor_columns(chip.bn))
    place = tensor_memory.retrieve_ptr(cutlass.Float32)
    cuts = parts_of(work, mmas, tiles_along_k(work, wholes, (row, column), batch))
    ways = [way(*one) for one in zip(loads, cuts, tiles, strict=True)]
    shape = mma.partition_shape_C((chip.bm, chip.bn))
    acc = cute.make_tensor(place, mma.make_fragment_C(shape).layout)
    turns = cute.size(ways[0][2], mode=[1])
    if warp == FETCHER:
        for _ in cutlass.range(turns, unroll=1):
            empty = filling.acquire_and_advance()
            fill(empty, empty.count, ways)
        filling.tail()
    elif warp == MULTIPLIER:
        parts_a, parts_b = mma.make_fragment_A(tiles[0]), mma.make_fragment_B(tiles[1])
        multiply(mma, acc, parts_a, parts_b, turns, reading, finishing)
        finishing.tail()
    else:
        tensor_memory.relinquish_alloc_permit()
        sums = storing.wait_and_advance()
        store(work, acc, thread, (row, column, batch), memories, numbers, sizes)
        sums.release()
    cute.arch.barrier()
    tensor_memory.free(place)


KERNELS = Kernels(
    product, lambda work, wholes: loads_of(work, mmas_of(work), wholes), lambda work: THREADS
)
