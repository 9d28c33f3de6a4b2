"""Attention for Hopper: one warp fetches by TMA, the others multiply (wgmma) and keep a softmax.

In: an `Attention` (flash_claims.py), pointers, sizes. Out: what the stores of its sum, its lse and
its top say. Always true: scores, masks and their captured tensors are the tile program's scalar
expressions; blocks of keys that the mask's tables leave out are not fetched; weights are rounded to
the dtype of the values, as tensor cores take them; a query without keys gives 0.
**Compiled for sm_90a, not run on a GPU.**

    last warp   fetch queries; for each run of the mask, for each 64 keys: fetch keys, values
    the others  for the same: x = score(q @ k.T), -inf where not kept; new top, shrink;
                p = exp(x - top); total = total * shrink + p; sums = sums * shrink + p @ v
"""

import cutlass
from cuda.bindings.driver import CUstream
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.nvgpu.common import OperandMajorMode
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as hopper

from rushlight.backends.cute.epilogue_impl import number_of
from rushlight.backends.cute.flash_claims import STEP
from rushlight.backends.cute.gemm_impl import ALIGN, flat_tensors, matrix, way
from rushlight.backends.cute.softmax_impl import KEYS, Softmax

STAGES = 2
WARP = 32


def ring_of(bytes_of_a_stage, stages, readers):
    """Stages that the last warp fills and the others read."""
    return pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, readers),
        tx_count=bytes_of_a_stage,
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )


def tma_of(x, layout, tile):
    """How TMA fetches one tile, and its view of the whole."""
    load, one = cpasync.CopyBulkTensorTileG2SOp(), cute.slice_(layout, (None, None, 0))
    return cpasync.make_tiled_tma_atom(load, x, one, tile)


def orders_of(side):
    """Which index of an operand runs fastest, as layouts and as wgmma call it."""
    if side.is_k_major:
        return LayoutEnum.ROW_MAJOR, OperandMajorMode.K
    return LayoutEnum.COL_MAJOR, OperandMajorMode.MN


def fetch_tile(place, tile, ways):
    """A tile of some operands is on its way."""
    for load, to, source in ways:
        cute.copy(load, source[None, tile], to[None, place.index], tma_bar_ptr=place.barrier)
    place.commit()


@cute.jit
def fetch(asking, filling, queries, keys, values, state):
    """What one warp does: queries once, then keys and values, tile by tile."""
    fetch_tile(asking.acquire_and_advance(), 0, (queries,))
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for tile in cutlass.range(low, high, unroll=1):
            fetch_tile(filling.acquire_and_advance(), tile, (keys, values))


@cute.jit
def compute(given, reading, mma_x, mma_o, parts, state):
    """What the other warps do, for the same tiles."""
    parts_q, parts_k, parts_v = parts
    mma_o.set(warpgroup.Field.ACCUMULATE, True)
    queries = given.wait_and_advance()
    begin, end = state.runs()
    for run in cutlass.range(begin, end, unroll=1):
        low, high = state.tiles_of_run(run)
        for tile in cutlass.range(low, high, unroll=1):
            ready = reading.wait_and_advance()
            mma_x.set(warpgroup.Field.ACCUMULATE, False)
            warpgroup.fence()
            for piece in cutlass.range_constexpr(cute.size(parts_q, mode=[2])):
                a, b = parts_q[None, None, piece, 0], parts_k[None, None, piece, ready.index]
                cute.gemm(mma_x, state.scores, a, b, state.scores)
                mma_x.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            state.step(tile)
            warpgroup.fence()
            for piece in cutlass.range_constexpr(KEYS // STEP):
                a, b = state.weights[None, None, piece], parts_v[None, None, piece, ready.index]
                cute.gemm(mma_o, state.sums, a, b, state.sums)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            ready.release()
    queries.release()
    state.finish()


def shared(work, layouts):
    """Memory for a block of queries and for the ring; what guards them."""
    memory, kind, readers = SmemAllocator(), work.kind, work.rows // 16
    tiles = [memory.allocate_tensor(kind, x.outer, ALIGN, x.inner) for x in layouts]
    q, k, v = (cute.size_in_bytes(kind, cute.slice_(x, (None, None, 0))) for x in layouts)
    return tiles, ring_of(q, 1, readers), ring_of(k + v, STAGES, readers)


def pieces_of(work, loads, wholes, tiles, block, batch):
    """The ways of queries, keys and values into shared memory."""
    product, features = work.product, work.features
    sides = (product.q, product.k, product.v)
    own = [
        x[None, None, batch if side.lead != 0 else 0] for x, side in zip(wholes, sides, strict=True)
    ]
    cut = (
        cute.local_tile(own[0], (work.rows, features), (block, None)),
        cute.local_tile(own[1], (KEYS, features), (None, 0)),
        cute.local_tile(own[2], (work.results, KEYS), (0, None)),
    )
    return [way(*one) for one in zip(loads, cut, tiles, strict=True)]


@cute.kernel
def attend(
    load_q: cute.CopyAtom, q: cute.Tensor, load_k: cute.CopyAtom, k: cute.Tensor,
    load_v: cute.CopyAtom, v: cute.Tensor, memories: tuple, numbers: cute.Tensor, sizes: tuple,
    mma_x: cute.TiledMma, mma_o: cute.TiledMma, q_layout: cute.ComposedLayout,
    k_layout: cute.ComposedLayout, v_layout: cute.ComposedLayout, work: cutlass.Constexpr,
):  # fmt: skip
    """`rows` queries of one element of the batch."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, batch = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tiles, once, ring = shared(work, (q_layout, k_layout, v_layout))
    asking, given = once.make_participants()
    filling, reading = ring.make_participants()
    ways = pieces_of(work, (load_q, load_k, load_v), (q, k, v), tiles, block, batch)
    state = Softmax(work, thread, block, batch, memories, numbers, sizes)
    if warp == work.rows // 16:
        fetch(asking, filling, *ways, state)
    else:
        mine_x, mine_o = mma_x.get_slice(thread), mma_o.get_slice(thread)
        parts = (
            mma_x.make_fragment_A(mine_x.partition_A(tiles[0])),
            mma_x.make_fragment_B(mine_x.partition_B(tiles[1])),
            mma_o.make_fragment_B(mine_o.partition_B(tiles[2])),
        )
        state.begin(mine_x, mine_o)
        compute(given, reading, mma_x, mma_o, parts, state)


@cute.jit
def launch(
    memories: tuple, numbers: cute.Pointer, sizes: tuple, stream: CUstream,
    work: cutlass.Constexpr,
):  # fmt: skip
    """Launches `attend` for every block of queries."""
    grid, rows, kind = work.grid, work.rows, work.kind
    known = dict(zip(work.size_names, sizes, strict=False))
    batch = number_of(work.batch, known)
    sides = (
        (work.product.q, grid.l.extent, work.features),
        (work.product.k, grid.s.extent, work.features),
        (work.product.v, work.results, grid.s.extent),
    )
    q, k, v = (matrix(work, side, own, other, batch, memories, known) for side, own, other in sides)
    majors, modes = zip(*(orders_of(side[0]) for side in sides), strict=True)
    groups = (rows // 64, 1, 1)
    mma_x = hopper.make_trivial_tiled_mma(
        kind, kind, modes[0], modes[1], cutlass.Float32, groups, (64, KEYS)
    )
    mma_o = hopper.make_trivial_tiled_mma(
        kind, kind, OperandMajorMode.K, modes[2], cutlass.Float32, groups, (64, work.results),
        warpgroup.OperandSource.RMEM,
    )  # fmt: skip
    scores, sums = (rows, KEYS, work.features), (rows, work.results, KEYS)
    q_layout = hopper.make_smem_layout_a(majors[0], scores, kind, 1)
    k_layout = hopper.make_smem_layout_b(majors[1], scores, kind, STAGES)
    v_layout = hopper.make_smem_layout_b(majors[2], sums, kind, STAGES)
    load_q, tma_q = tma_of(q, q_layout, (rows, work.features))
    load_k, tma_k = tma_of(k, k_layout, (KEYS, work.features))
    load_v, tma_v = tma_of(v, v_layout, (work.results, KEYS))
    flat, words = flat_tensors(work, memories, numbers, known)
    attend(
        load_q, tma_q, load_k, tma_k, load_v, tma_v, flat, words, sizes, mma_x, mma_o,
        q_layout, k_layout, v_layout, work,
    ).launch(
        grid=(cute.ceil_div(q.shape[0], rows), 1, batch),
        block=(2 * rows + WARP, 1, 1), stream=stream,
    )  # fmt: skip
