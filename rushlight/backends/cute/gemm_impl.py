"""A product for Hopper: TMA fills a ring of tiles in shared memory, warp groups multiply (wgmma).

In: a (m, k) and b (n, k), both with k last, out (m, n). Out: out = epilogue(a @ b.T). Always true:
m and n are multiples of BM and BN (stores are not masked); k may be any, TMA gives 0 outside.
**Compiled for sm_90a, not run on a GPU.** cutlass is imported here: whoever wants the kernel loads
this file.

    warp 0      fill STAGES tiles ahead; after each product, one more
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

BM, BN, BK, STAGES = 128, 128, 64, 4
GROUPS = 2  # warp groups of 128 threads, each with half of the rows
THREADS = 128 * GROUPS
ALIGN = 128


def tiles_of(kind, a_layout, b_layout):
    """The ring's memory for both operands, and the pipeline that guards it."""
    memory = SmemAllocator()
    a_tile = memory.allocate_tensor(kind, a_layout.outer, ALIGN, a_layout.inner)
    b_tile = memory.allocate_tensor(kind, b_layout.outer, ALIGN, b_layout.inner)
    one_a, one_b = (cute.slice_(layout, (None, None, 0)) for layout in (a_layout, b_layout))
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
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
    """The next piece of both operands is on its way."""
    for load, to, source in ways:
        cute.copy(load, source[None, place.count], to[None, place.index], tma_bar_ptr=place.barrier)
    place.commit()


@cute.kernel
def product(
    load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom, b: cute.Tensor,
    out: cute.Tensor, mma: cute.TiledMma, a_layout: cute.ComposedLayout,
    b_layout: cute.ComposedLayout, epilogue: cutlass.Constexpr, kind: cutlass.Constexpr,
):  # fmt: skip
    """One tile of `out`. `kind`: the dtype of the operands."""
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    a_tile, b_tile, ring = tiles_of(kind, a_layout, b_layout)
    filling, reading = ring.make_participants()
    from_a = way(load_a, cute.local_tile(a, (BM, BK), (row, None)), a_tile)
    from_b = way(load_b, cute.local_tile(b, (BN, BK), (column, None)), b_tile)
    mine = mma.get_slice(thread)
    parts_a = mma.make_fragment_A(mine.partition_A(a_tile))
    parts_b = mma.make_fragment_B(mine.partition_B(b_tile))
    part_out = mine.partition_C(cute.local_tile(out, (BM, BN), (row, column)))
    acc = cute.make_rmem_tensor(part_out.shape, cutlass.Float32)
    turns = cute.size(from_a[2], mode=[1])
    ahead = cutlass.min(STAGES, turns)
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
    done = cute.make_rmem_tensor(acc.shape, out.element_type)
    done.store(epilogue(acc.load()).to(out.element_type))
    cute.autovec_copy(done, part_out)


@cute.jit
def gemm(
    a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, epilogue: cutlass.Constexpr, stream: CUstream
):
    """Launches `product` for every tile of `out`."""
    along_k, rows = OperandMajorMode.K, LayoutEnum.ROW_MAJOR
    mma = hopper.make_trivial_tiled_mma(
        a.element_type, b.element_type, along_k, along_k, cutlass.Float32, (GROUPS, 1, 1), (64, BN)
    )
    tile = (BM, BN, BK)
    a_layout = hopper.make_smem_layout_a(rows, tile, a.element_type, STAGES)
    b_layout = hopper.make_smem_layout_b(rows, tile, b.element_type, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    one_a, one_b = (cute.slice_(layout, (None, None, 0)) for layout in (a_layout, b_layout))
    load_a, tma_a = cpasync.make_tiled_tma_atom(load, a, one_a, (BM, BK))
    load_b, tma_b = cpasync.make_tiled_tma_atom(load, b, one_b, (BN, BK))
    grid = (cute.ceil_div(out.shape[0], BM), cute.ceil_div(out.shape[1], BN), 1)
    product(
        load_a, tma_a, load_b, tma_b, out, mma, a_layout, b_layout, epilogue, a.element_type
    ).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


# What may follow a product, over CuTe's values.
EPILOGUES = {
    "none": lambda x: x,
    "relu": lambda x: cute.where(x > 0.0, x, cute.full_like(x, 0.0)),
    "square": lambda x: x * x,
}
