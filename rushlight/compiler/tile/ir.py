"""The tile language: what a kernel is. Every backend reads this and nothing above it.

A `Program` is a short list of grids over buffers. The instances of a grid are independent and may
run in any order on any thread; grid i+1 starts when grid i is done. A body is a list of statements
over tiles: each statement has a *domain* (its axes) and computes every point of it. What order the
points are visited in, how they are blocked, vectorised and staged is the backend's schedule; what
the numbers are is fixed here:

  Map      independent points; each store evaluates one scalar expression
  Reduce   canonical order [canonical sums], whatever the schedule
  Scan     inclusive left fold along one axis; kind "running_sum": see [running sums]
  Sort     stable
  DotGrid  one chain of fused multiply-adds over ascending k per output element, from acc = 0
           (unless b slides, see there);
           integers: wrapping multiply and add; of bfloat16 operands subnormal numbers may be 0
  AttentionGrid  sums over pairs of queries and keys, see [attention]
  ScatterGrid  updates are applied in ascending order of the update's index

[canonical sums] n elements in the order of the flattened `over` axes are cut into chunks of CHUNK
(the last may be short). In a chunk, partial p (of PARTIALS) folds elements p, p+32, p+64, ... from
left to right, starting from the identity (sum +0.0, prod 1). The partials are joined as a binary
tree over halves: p[i] = p[i] + p[i+16] for i < 16, then +8, +4, +2, +1. Chunk results are joined by
a binary tree over neighbours: level by level c[i] = c[2i] + c[2i+1], an odd last one carried up.
`order="tree"` means the elements are already chunk results: only the last step is done.
max, min, any, all do not depend on order (NaN wins in max and min; +0 counts as greater than -0).
argmax/argmin give the
lowest flattened index among the extreme elements; NaN wins.
Sums accumulate in the item's value dtype (the compiler casts bf16/f16 to f32 first).

[running sums] n elements are cut into chunks of SUM_CHUNK (the last may be short). A chunk is one
chain of additions from left to right, and so are the results of the chunks. An element's result is
its place in its chunk's chain + that of all chunks before, which the first chunk has not.

[attention] For pairs of a query l and a key s, acc i is product i: one chain of fused multiply-adds
a(l, k) * b(s, k) over ascending k from 0. A pair is *kept* when `keep` says so (all, if None) and,
if `causal`, s <= l; a pair that is not kept adds nothing to anything. `runs` repeat beforehand
where kept pairs can be, so that a kernel leaves out the rest. What kept pairs give is summed.
A sum over s is a chain of fused multiply-adds weight(l, s) * other(s, n) over ascending s from 0;
one over l likewise over ascending l. Without `other` it is a chain of additions.
A bin n adds the weights of the pairs with bin(l, s) = n, from 0: block by block of KEY_BLOCK
queries, in it block by block of KEY_BLOCK keys, in it query by query, key by key, ascending. A
weight of 0, and a bin that is none of 0 ... n - 1, add nothing.
With `softmax` the sums are over s, and their weight is acc 0, the probability. Keys are cut at
multiples of KEY_BLOCK. A query starts from top = -inf, total = 0, sum[n] = 0; for each block:
  x[s]   = score(acc ...)
  new    = the largest of top and all x, NaN left out;  ref = 0 where new is -inf, else new
  shrink = exp(top - ref);  p[s] = exp(x[s] - ref);  top = new
  total  = total * shrink, then + p[s] for ascending s
  sum[n] = sum[n] * shrink, then a fused multiply-add of p[s] * other(s, n) for ascending s
The results are sum * (1 / total), 0 for a query that sees no key; lse = top + log(total); top.
(A pair that is not kept may be computed and multiplied by 0: where operands of it are NaN or
infinite, whether that shows is not defined.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.base.dtypes import DType
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var
from rushlight.ops.reduce import SUM_CHUNK as SUM_CHUNK

CHUNK = 4096
PARTIALS = 32
KEY_BLOCK = 64

REDUCE_KINDS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
SCAN_KINDS = ("sum", "prod", "max", "min", "argmax", "argmin", "running_sum")
SCATTER_KINDS = ("set", "sum", "prod", "max", "min")


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory shared by all instances: `size` elements. role: "in", "out", "inout" or "scratch".

    Buffers of one program are apart, but an "out" may be the memory of an "in" whose elements are
    read only at the point that writes them (an "inout" is both by name).
    """

    name: str
    dtype: DType
    size: int | Expr
    role: str = "in"


@dataclass(frozen=True, eq=False)
class Local:
    """A tile private to an instance, row-major. Lives from its first store to the end of the body.

    Backends put small ones in registers or on the stack, others in scratch of the instance.
    """

    name: str
    dtype: DType
    shape: tuple[int | Expr, ...]

    @property
    def size(self) -> int | Expr:
        total: int | Expr = 1
        for extent in self.shape:
            total = total * extent
        return total


@dataclass(frozen=True)
class Param:
    """A scalar input, read by `scalar.param(name, dtype)`."""

    name: str
    dtype: DType


class Axis:
    """A named range 0 <= var < extent. Extents may depend on sizes and on outer axes (Min)."""

    __slots__ = ("name", "extent", "var")

    def __init__(self, name: str, extent: int | Expr) -> None:
        self.name, self.extent = name, extent
        self.var = Var(name, 0, extent - 1, "axis")

    def __repr__(self) -> str:
        return f"{self.name}<{self.extent!r}"


@dataclass(frozen=True, eq=False)
class Store:
    """dest[at] = value, where mask is true. `at` is an element offset (row-major for a Local)."""

    dest: Buffer | Local
    at: int | Expr
    value: E
    mask: E | None = None


@dataclass(frozen=True, eq=False)
class Map:
    """Every store for every point of `axes` (outermost first). No point reads another's store; the
    values and masks of a point are computed before its first store (so in every list of stores)."""

    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True, eq=False)
class ReduceItem:
    """One of the results of a reduction: what is folded, how, and where it goes."""

    kind: str
    value: E
    dest: Buffer | Local
    at: int | Expr
    # Applied to the finished result before the store (an expression of `acc`); None: store it.
    finish: E | None = None


@dataclass(frozen=True, eq=False)
class Reduce:
    """For every point of `axes`: fold each item's value over the flattened `over` axes."""

    axes: tuple[Axis, ...]
    over: tuple[Axis, ...]
    items: tuple[ReduceItem, ...]
    order: str = "canonical"


@dataclass(frozen=True, eq=False)
class Scan:
    """For every point of `axes`: dest[at] = inclusive left fold of value along `over`.

    kind argmax/argmin: the (int64) position of the running extreme, the LATEST among equals
    (PyTorch's cummax), NaN wins.
    """

    axes: tuple[Axis, ...]
    over: Axis
    kind: str
    value: E
    dest: Buffer | Local
    at: int | Expr


@dataclass(frozen=True, eq=False)
class Sort:
    """Stable argsort of one row: dest[at(over)] = int64 position of the over-th smallest key.

    descending: largest first, still stable. NaN sorts as the largest. -0.0 equals +0.0.
    first: of the sorted row only so many positions are stored (None: all).
    """

    over: Axis
    key: E
    descending: bool
    dest: Buffer
    at: int | Expr
    first: int | Expr | None = None

    @property
    def stored(self) -> Axis:
        """The axis of the positions that are stored."""
        return self.over if self.first is None else Axis(self.over.name, self.first)


@dataclass(frozen=True, eq=False)
class Loop:
    """Run `body` for axis = 0, 1, ... in order. Locals carry values between turns."""

    axis: Axis
    body: tuple[Statement, ...]


Statement = Map | Reduce | Scan | Sort | Loop


@dataclass(frozen=True, eq=False)
class Grid:
    """One instance per point of `axes`."""

    axes: tuple[Axis, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class DotGrid:
    """acc[batch, m, n] = sum over k of a(batch, m, k) * b(batch, k, n), then the stores.

    `a` and `b` are expressions (prologue holes: loads through views, casts, elementwise) of dtype
    `acc_dtype` or of a narrower one that is cast up exactly. `stores` (epilogue holes) use
    `scalar.acc(acc_dtype)` and the axes batch, m, n. The backend owns the schedule.

    slides: (outputs, taps), b slides: b(taps * k + d, outputs * n + s) depends on d + s, k and n; a
    backend may then use fewer multiplications, with another order of sums.
    """

    batch: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: Axis
    a: E
    b: E
    acc_dtype: DType
    stores: tuple[Store, ...]
    slides: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Product:
    """acc i of each pair: a(batch, l, k) with b(batch, s, k), prologue holes as in DotGrid."""

    k: Axis
    a: E
    b: E


@dataclass(frozen=True, eq=False)
class Runs:
    """Where kept pairs can be: for each block of `rows` owners, ranges of `tile` others.

    begin, end   (of batch, row): runs begin, ... end - 1 belong to block `row`
    first, stop  (of run): others from first * tile on and before stop * tile (which may exceed the
                 extent); runs ascend and are disjoint
    code         (of run): two bits for each `group` owners of the block and each `part` of a tile,
                 the parts of the first group lowest: 0 no pair is kept, 1 the mask decides, 2 all
                 are kept: it needs no look
    The last five are int64. rows is a multiple of KEY_BLOCK, tile is KEY_BLOCK, `group` divides
    rows and `part` tile.
    """

    rows: int
    tile: int
    group: int
    part: int
    row: Axis
    run: Axis
    begin: E
    end: E
    first: E
    stop: E
    code: E


@dataclass(frozen=True, eq=False)
class PairSum:
    """over: "s" (a result per query) or "l" (per key). weight: of accs, batch, l, s.

    other(batch, over, n), of acc_dtype or narrower; None, and n with it: the weights alone.
    `stores` use scalar.acc, the sum, and the axes batch, (l or s), n.
    """

    over: str
    weight: E
    n: Axis | None
    other: E | None
    stores: tuple[Store, ...]


@dataclass(frozen=True, eq=False)
class PairBins:
    """weight as in PairSum; bin (int64) of batch, l, s. `stores` use scalar.acc, the sum of a bin,
    and the axes batch, n."""

    weight: E
    bin: E
    n: Axis
    stores: tuple[Store, ...]


@dataclass(frozen=True, eq=False)
class Softmax:
    """`score` of accs, batch, l, s. `exp` and `log` (of scalar.acc): the functions, so that passes
    expand them like any other. Stores use scalar.acc and the axes batch, l."""

    score: E
    exp: E
    log: E
    lse_stores: tuple[Store, ...] = ()
    top_stores: tuple[Store, ...] = ()


@dataclass(frozen=True, eq=False)
class AttentionGrid:
    """Sums over pairs of queries and keys, with or without a softmax: see [attention].

    acc i is scalar.acc(acc_dtype, i). acc_dtype: float32 or float64. `runs_l` are for blocks of
    queries, `runs_s` for blocks of keys; None: pairs may be kept anywhere.
    """

    batch: tuple[Axis, ...]
    l: Axis  # noqa: E741
    s: Axis
    products: tuple[Product, ...]
    keep: E | None
    causal: bool
    runs_l: Runs | None
    runs_s: Runs | None
    softmax: Softmax | None
    sums: tuple[PairSum, ...]
    acc_dtype: DType
    bins: tuple[PairBins, ...] = ()


@dataclass(frozen=True, eq=False)
class ScatterGrid:
    """dest rows updated by index: for u ascending, for w: dest[row(u)*stride + w] op= value(u, w).

    `dest` holds the initial values already (an earlier grid copied them). `row` is an int64
    expression of `update`'s axis, in range (checked). `width` is the contiguous inner extent.
    """

    update: Axis
    width: Axis
    rows: int | Expr
    row: E
    value: E
    kind: str
    dest: Buffer


AnyGrid = Grid | DotGrid | AttentionGrid | ScatterGrid


@dataclass(frozen=True, eq=False)
class Program:
    """One kernel. `buffers` in the order of the pointers it gets, `params` of the scalars,
    `sizes` of the ints (every free Var of kind size or offset)."""

    name: str
    buffers: tuple[Buffer, ...]
    params: tuple[Param, ...]
    sizes: tuple[Var, ...]
    grids: tuple[AnyGrid, ...]
    # What `check_index` sites mean, for the error: site number -> text (op, user line).
    sites: tuple[str, ...] = field(default=())
