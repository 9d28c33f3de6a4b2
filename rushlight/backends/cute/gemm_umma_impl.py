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
from cuda.bindings.driver import CUstream
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, make_tiled_tma_atom_A, make_tiled_tma_atom_B, tcgen05
from cutlass.memory import SmemAllocator, TmemAllocator
from cutlass.utils import blackwell_helpers as blackwell

from rushlight.backends.cute.chips import ROWS_OF_TENSOR_MEMORY, tensor_columns
from rushlight.backends.cute.epilogue_impl import finish, number_of
from rushlight.backends.cute.gemm_impl import ALIGN, MODES, fill, flat_tensors, matrix, of_batch

FETCHER, MULTIPLIER = 4, 5  # warps; those before them store
STORING = ROWS_OF_TENSOR_MEMORY
THREADS = STORING + 64
COLUMNS = 32  # of the sums, that a thread has in registers at a time
ALONE = (1, 1, 1, 1)  # a cluster of one group


def group(threads=1):
    return pipeline.CooperativeGroup(pipeline.Agent.Thread, threads)


def way(load, source, tile):
    """(load, to, from), as gemm_impl's; the first three modes are one tile."""
    to, source = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, 3), cute.group_modes(source, 0, 3)
    )
    return load, to, source


def shared(work, a_layout, b_layout):
    """Both operands' rings, the pipeline that guards them, and the one that says: sums are done."""
    memory, kind = SmemAllocator(), work.kind
    tiles = [memory.allocate_tensor(kind, x.outer, ALIGN, x.inner) for x in (a_layout, b_layout)]
    one = sum(
        cute.size_in_bytes(kind, cute.slice_(x, (None, None, None, 0)))
        for x in (a_layout, b_layout)
    )
    ring = pipeline.PipelineTmaUmma.create(
        num_stages=work.chip.stages, producer_group=group(), consumer_group=group(),
        tx_count=one, cta_layout_vmnk=cute.make_layout(ALONE),
    )  # fmt: skip
    done = pipeline.PipelineUmmaAsync.create(
        num_stages=1,
        producer_group=group(),
        consumer_group=group(STORING),
        cta_layout_vmnk=cute.make_layout(ALONE),
    )
    return *tiles, ring, done


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
    load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom, b: cute.Tensor,
    memories: tuple, numbers: cute.Tensor, sizes: tuple, mma: cute.TiledMma,
    a_layout: cute.ComposedLayout, b_layout: cute.ComposedLayout, work: cutlass.Constexpr,
):  # fmt: skip
    """One tile of one product. `work`: what is multiplied and stored."""
    chip = work.chip
    thread, _, _ = cute.arch.thread_idx()
    row, column, batch = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    a_tile, b_tile, ring, done = shared(work, a_layout, b_layout)
    filling, reading = ring.make_participants()
    finishing, storing = done.make_participants()
    columns = tensor_columns(chip.bn)
    tensor_memory = TmemAllocator(barrier_for_retrieve=pipeline.NamedBarrier(1, THREADS))
    tensor_memory.allocate(columns)
    tensor_memory.wait_for_alloc()
    place = tensor_memory.retrieve_ptr(cutlass.Float32)
    mine = mma.get_slice(0)
    own_a, own_b = of_batch(a, work.a, batch), of_batch(b, work.b, batch)
    cut_a = mine.partition_A(cute.local_tile(own_a, (chip.bm, chip.bk), (row, None)))
    cut_b = mine.partition_B(cute.local_tile(own_b, (chip.bn, chip.bk), (column, None)))
    from_a, from_b = way(load_a, cut_a, a_tile), way(load_b, cut_b, b_tile)
    shape = mma.partition_shape_C((chip.bm, chip.bn))
    acc = cute.make_tensor(place, mma.make_fragment_C(shape).layout)
    turns = cute.size(from_a[2], mode=[1])
    if warp == FETCHER:
        for _ in cutlass.range(turns, unroll=1):
            fill(filling.acquire_and_advance(), (from_a, from_b))
        filling.tail()
    elif warp == MULTIPLIER:
        parts_a, parts_b = mma.make_fragment_A(a_tile), mma.make_fragment_B(b_tile)
        multiply(mma, acc, parts_a, parts_b, turns, reading, finishing)
        finishing.tail()
    else:
        tensor_memory.relinquish_alloc_permit()
        sums = storing.wait_and_advance()
        store(work, acc, thread, (row, column, batch), memories, numbers, sizes)
        sums.release()
    cute.arch.barrier()
    tensor_memory.free(place)


@cute.jit
def launch(
    memories: tuple, numbers: cute.Pointer, sizes: tuple, stream: CUstream,
    work: cutlass.Constexpr,
):  # fmt: skip
    """Launches `product` for every tile. `memories`: a pointer for each buffer of the program."""
    chip, grid, kind = work.chip, work.grid, work.kind
    known = dict(zip(work.size_names, sizes, strict=False))
    batch = number_of(work.batch, known)
    a, b = (
        matrix(work, side, axis.extent, grid.k.extent, batch, memories, known)
        for side, axis in ((work.a, grid.m), (work.b, grid.n))
    )
    modes = [MODES[side.is_k_major] for side in (work.a, work.b)]
    mma = blackwell.make_trivial_tiled_mma(
        kind, kind, *modes, cutlass.Float32, tcgen05.CtaGroup.ONE, (chip.bm, chip.bn)
    )
    tile = (chip.bm, chip.bn, chip.bk)
    a_layout = blackwell.make_smem_layout_a(mma, tile, kind, chip.stages)
    b_layout = blackwell.make_smem_layout_b(mma, tile, kind, chip.stages)
    load = cpasync.CopyBulkTensorTileG2SOp()
    one_a, one_b = (cute.slice_(layout, (None, None, None, 0)) for layout in (a_layout, b_layout))
    load_a, tma_a = make_tiled_tma_atom_A(load, a, one_a, tile, mma, ALONE)
    load_b, tma_b = make_tiled_tma_atom_B(load, b, one_b, tile, mma, ALONE)
    flat, words = flat_tensors(work, memories, numbers, known)
    groups = (cute.ceil_div(a.shape[0], chip.bm), cute.ceil_div(b.shape[0], chip.bn), batch)
    product(load_a, tma_a, load_b, tma_b, flat, words, sizes, mma, a_layout, b_layout, work).launch(
        grid=groups, block=(THREADS, 1, 1), stream=stream
    )
