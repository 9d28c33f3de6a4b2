"""What the kernels of Hopper share: where operands lie in shared memory, how TMA brings them there.

In: `Work`, its operands. Out: layouts, loads, the ring that is filled and read. Always true: a warp
that reads a stage gives it back.
"""

from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as hopper

from rushlight.backends.cute.tiles_impl import one_stage

# By: does k run fastest?
MAJORS = {True: LayoutEnum.ROW_MAJOR, False: LayoutEnum.COL_MAJOR}
MAKE = {True: hopper.make_smem_layout_a, False: hopper.make_smem_layout_b}


def layouts_of(work):
    """Where the operands lie in shared memory."""
    found = []
    for one in work.operands:
        rows, k = one.tile  # of the other factor's rows nothing depends
        major = MAJORS[one.matrix.is_k_major]
        found.append(MAKE[one.is_left](major, (rows, rows, k), work.kind, one.stages))
    return found


def loads_of(work, wholes):
    """How TMA loads the operands, and the operands as it sees them."""
    load = cpasync.CopyBulkTensorTileG2SOp()
    return [
        cpasync.make_tiled_tma_atom(load, x, one_stage(layout), one.tile)
        for one, x, layout in zip(work.operands, wholes, layouts_of(work), strict=True)
    ]


def ring_of(bytes_of_a_stage, stages, readers):
    """Stages that one warp fills and `readers` warps read."""
    return pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, readers),
        tx_count=bytes_of_a_stage,
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )
