"""What the kernels of Blackwell share: which warp does what, where operands lie in shared memory,
how TMA brings them there.

In: `Work`, its operands, how they are multiplied (`mmas`, one for each operand). Out: layouts,
loads, what threads wait for. Always true: a group is a cluster of its own.
"""

from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, make_tiled_tma_atom_A, make_tiled_tma_atom_B
from cutlass.memory import TmemAllocator
from cutlass.utils import blackwell_helpers as blackwell

from rushlight.backends.cute.chips import ROWS_OF_TENSOR_MEMORY
from rushlight.backends.cute.tiles_impl import WARP, one_stage

FETCHER, MULTIPLIER = 4, 5  # warps; those before them store
STORING = ROWS_OF_TENSOR_MEMORY
THREADS = STORING + 2 * WARP
COLUMNS = 32  # of the sums, that a thread has in registers at a time
ALONE = (1, 1, 1, 1)  # a cluster of one group

MAKE = {True: blackwell.make_smem_layout_a, False: blackwell.make_smem_layout_b}
LOAD = {True: make_tiled_tma_atom_A, False: make_tiled_tma_atom_B}


def group(threads=1):
    return pipeline.CooperativeGroup(pipeline.Agent.Thread, threads)


def tile_of(one):
    """(rows, columns, k) of a product; of the other factor's rows nothing depends."""
    rows, k = one.tile
    return rows, rows, k


def layouts_of(work, mmas):
    """Where the operands lie in shared memory."""
    return [
        MAKE[one.is_left](mma, tile_of(one), work.kind, one.stages)
        for one, mma in zip(work.operands, mmas, strict=True)
    ]


def loads_of(work, mmas, wholes):
    """How TMA loads the operands, and the operands as it sees them."""
    load, found = cpasync.CopyBulkTensorTileG2SOp(), []
    for one, mma, x, layout in zip(
        work.operands, mmas, wholes, layouts_of(work, mmas), strict=True
    ):
        make, part = LOAD[one.is_left], one_stage(layout)
        found.append(make(load, x, part, tile_of(one), mma, ALONE))
    return found


def parts_of(work, mmas, cuts):
    """What one thread's multiplications take of the operands' tiles."""
    found = []
    for one, mma, cut in zip(work.operands, mmas, cuts, strict=True):
        mine = mma.get_slice(0)
        found.append(mine.partition_A(cut) if one.is_left else mine.partition_B(cut))
    return found


def ring_of(bytes_of_a_stage, stages):
    """Stages that one warp fills and another multiplies."""
    return pipeline.PipelineTmaUmma.create(
        num_stages=stages, producer_group=group(), consumer_group=group(),
        tx_count=bytes_of_a_stage, cta_layout_vmnk=cute.make_layout(ALONE),
    )  # fmt: skip


def from_tensor_cores():
    """One stage that tensor cores write and the storing threads read."""
    return pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=group(), consumer_group=group(STORING),
        cta_layout_vmnk=cute.make_layout(ALONE),
    )  # fmt: skip


def take_columns(columns):
    """All threads: tensor memory is taken. What gives it back, and where it is."""
    allocator = TmemAllocator(barrier_for_retrieve=pipeline.NamedBarrier(1, THREADS))
    allocator.allocate(columns)
    allocator.wait_for_alloc()
    return allocator
