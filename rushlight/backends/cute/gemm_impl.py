"""A product for Hopper: TMA fills a ring of tiles in shared memory, warp groups multiply (wgmma).

In: a `Product` (claims.py), pointers to its buffers, its sizes. Out: what its stores say. Always
true: what lies outside of the matrices is 0 (TMA) and is not stored; sums are float32; the tile
program's scalar expressions are the epilogue. **Compiled for sm_90a, not run on a GPU.** cutlass
is imported here: whoever wants the kernel loads this file.

    warp 0      fill `stages` tiles ahead; after each product, one more
    two groups  wait for a tile; acc += a_tile @ b_tile.T; give the tile back
"""

import cutlass
from cuda.bindings.driver import CUstream
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.nvgpu.common import OperandMajorMode
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as hopper

from rushlight.backends.cute.epilogue_impl import finish, number_of, position

# By: does k run fastest?
MODES = {True: OperandMajorMode.K, False: OperandMajorMode.MN}
MAJORS = {True: LayoutEnum.ROW_MAJOR, False: LayoutEnum.COL_MAJOR}
GROUPS = 2  # warp groups of 128 threads, each with half of the rows
THREADS = 128 * GROUPS
ALIGN = 1024  # bytes: after which the pattern of the widest swizzle repeats


def tiles_of(kind, a_layout, b_layout, stages):
    """The ring's memory for both operands, and the pipeline that guards it."""
    memory = SmemAllocator()
    a_tile = memory.allocate_tensor(kind, a_layout.outer, ALIGN, a_layout.inner)
    b_tile = memory.allocate_tensor(kind, b_layout.outer, ALIGN, b_layout.inner)
    one_a, one_b = (cute.slice_(layout, (None, None, 0)) for layout in (a_layout, b_layout))
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS // 32),
        tx_count=cute.size_in_bytes(kind, one_a) + cute.size_in_bytes(kind, one_b),
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )
    return a_tile, b_tile, ring


def way(load, source, tile):
    """(load, to, from): pieces of a matrix and their places in the ring, as TMA wants them."""
    to, source = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(source, 0, 2)
    )
    return load, to, source


def fill(place, ways):
    """The next piece of both operands is on its way; what arrives tells the barrier itself."""
    for load, to, source in ways:
        cute.copy(load, source[None, place.count], to[None, place.index], tma_bar_ptr=place.barrier)


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
    a_tile, b_tile, ring = tiles_of(work.kind, a_layout, b_layout, chip.stages)
    filling, reading = ring.make_participants()
    own_a, own_b = of_batch(a, work.a, batch), of_batch(b, work.b, batch)
    from_a = way(load_a, cute.local_tile(own_a, (chip.bm, chip.bk), (row, None)), a_tile)
    from_b = way(load_b, cute.local_tile(own_b, (chip.bn, chip.bk), (column, None)), b_tile)
    mine = mma.get_slice(thread)
    parts_a = mma.make_fragment_A(mine.partition_A(a_tile))
    parts_b = mma.make_fragment_B(mine.partition_B(b_tile))
    places = mine.partition_C(cute.make_identity_tensor((chip.bm, chip.bn)))
    acc = cute.make_rmem_tensor(places.shape, cutlass.Float32)
    turns = cute.size(from_a[2], mode=[1])
    ahead = cutlass.min(chip.stages, turns)
    if warp == 0:
        for _ in cutlass.range(ahead, unroll=1):
            fill(filling.acquire_and_advance(), (from_a, from_b))
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
            fill(filling.acquire_and_advance(), (from_a, from_b))
    finish(work, acc, places, (row, column, batch), memories, numbers, sizes)


def matrix(work, side, rows, columns, batch, memories, sizes):
    """A tensor (rows, columns, batch) over a buffer, as `side` (claims.Matrix) says."""
    memory = memories[position(work, side.buffer)]
    offset, lead, across, along = (
        number_of(value, sizes) for value in (side.offset, side.lead, side.across, side.along)
    )
    shape = (
        number_of(rows, sizes), number_of(columns, sizes),
        batch // side.share if side.lead != 0 else 1,
    )  # fmt: skip
    layout = cute.make_layout(shape, stride=(across, along, lead))
    return cute.make_tensor((memory + offset).align(16), layout)


def of_batch(x, side, batch):
    """The matrix that one element of the batch has."""
    return x[None, None, batch // side.share if side.lead != 0 else 0]


def flat_tensors(work, memories, numbers, sizes):
    """All buffers as they lie, and the words of a launch."""
    flat = tuple(
        cute.make_tensor(pointer, cute.make_layout(number_of(buffer.size, sizes)))
        for pointer, buffer in zip(memories, work.program.buffers, strict=True)
    )
    return flat, cute.make_tensor(numbers, cute.make_layout(work.words))


@cute.jit
def launch(
    memories: tuple, numbers: cute.Pointer, sizes: tuple, stream: CUstream,
    work: cutlass.Constexpr,
):  # fmt: skip
    """Launches `product` for every tile. `memories`: a pointer for each buffer of the program."""
    chip, grid = work.chip, work.grid
    known = dict(zip(work.size_names, sizes, strict=False))
    batch = number_of(work.batch, known)
    a, b = (
        matrix(work, side, axis.extent, grid.k.extent, batch, memories, known)
        for side, axis in ((work.a, grid.m), (work.b, grid.n))
    )
    modes = [MODES[side.is_k_major] for side in (work.a, work.b)]
    majors = [MAJORS[side.is_k_major] for side in (work.a, work.b)]
    mma = hopper.make_trivial_tiled_mma(
        a.element_type, b.element_type, *modes, cutlass.Float32, (GROUPS, 1, 1), (64, chip.bn)
    )
    tile = (chip.bm, chip.bn, chip.bk)
    a_layout = hopper.make_smem_layout_a(majors[0], tile, a.element_type, chip.stages)
    b_layout = hopper.make_smem_layout_b(majors[1], tile, b.element_type, chip.stages)
    load = cpasync.CopyBulkTensorTileG2SOp()
    one_a, one_b = (cute.slice_(layout, (None, None, 0)) for layout in (a_layout, b_layout))
    load_a, tma_a = cpasync.make_tiled_tma_atom(load, a, one_a, (chip.bm, chip.bk))
    load_b, tma_b = cpasync.make_tiled_tma_atom(load, b, one_b, (chip.bn, chip.bk))
    flat, words = flat_tensors(work, memories, numbers, known)
    groups = (cute.ceil_div(a.shape[0], chip.bm), cute.ceil_div(b.shape[0], chip.bn), batch)
    product(load_a, tma_a, load_b, tma_b, flat, words, sizes, mma, a_layout, b_layout, work).launch(
        grid=groups, block=(THREADS, 1, 1), stream=stream
    )
