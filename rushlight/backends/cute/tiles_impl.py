"""How operands come to shared memory: what the kernels of both chips share.

In: operands as TMA sees them, layouts. Out: tiles in shared memory, and the ways to them. Always
true: the last mode of a tile counts stages; the modes before it are one tile, and those before the
last of a source are one, too.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.nvgpu.common import OperandMajorMode
from cutlass.memory import SmemAllocator

# By: does k run fastest?
MODES = {True: OperandMajorMode.K, False: OperandMajorMode.MN}
ALIGN = 1024  # bytes: after which the pattern of the widest swizzle repeats
WARP = 32


def one_stage(layout):
    """Of a layout, its first stage."""
    return cute.slice_(layout, (*(None,) * (cute.rank(layout) - 1), 0))


def allocate(kind, layouts):
    """Tiles in shared memory."""
    memory = SmemAllocator()
    return [memory.allocate_tensor(kind, x.outer, ALIGN, x.inner) for x in layouts]


def bytes_of(kind, layouts):
    """Of a stage of all of them."""
    return sum(cute.size_in_bytes(kind, one_stage(x)) for x in layouts)


def of_batch(x, side, batch):
    """The matrix that one element of the batch has."""
    return x[None, None, batch // side.share if side.lead != 0 else 0]


def tiles_along_k(work, wholes, blocks, batch):
    """The tiles of a product's operands that a group goes over. `blocks`: which rows of each."""
    return [
        cute.local_tile(of_batch(x, one.matrix, batch), one.tile, (block, None))
        for one, x, block in zip(work.operands, wholes, blocks, strict=True)
    ]


def attention_tiles(work, wholes, block, batch):
    """The tiles of attention's operands: the group's own owners, and all others."""
    found = []
    for one, x in zip(work.operands, wholes, strict=True):
        cut = (block, None) if one.is_left else (0, None) if one.is_turned else (None, 0)
        found.append(cute.local_tile(of_batch(x, one.matrix, batch), one.tile, cut))
    return found


def way(load, source, tile):
    """(load, to, from): pieces of a matrix and their places in the ring, as TMA wants them."""
    modes = cute.rank(tile) - 1
    to, source = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, modes),
        cute.group_modes(source, 0, modes),
    )  # fmt: skip
    return load, to, source


def fill(place, tile, ways):
    """A tile of some operands is on its way; what arrives tells the barrier itself."""
    for load, to, source in ways:
        cute.copy(load, source[None, tile], to[None, place.index], tma_bar_ptr=place.barrier)


@cute.jit
def fetch(asking, filling, owners, others, state, waits: cutlass.Constexpr):
    """What one warp of attention does: owners once, then the others, tile by tile. `waits`: at the
    end it waits until all is read, so that no tensor core tells so after the group has ended."""
    fill(asking.acquire_and_advance(), 0, owners)
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for tile in cutlass.range(low, high, unroll=1):
            fill(filling.acquire_and_advance(), tile, others)
    if cutlass.const_expr(waits):
        asking.tail()
        filling.tail()
