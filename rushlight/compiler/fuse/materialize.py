"""Which values are computed once and kept, and which are computed again where they are used.

A *point* is a node that gets a place of its own (a buffer, or a tile inside a kernel); every other
node is inlined into the expressions of its users. Roots and the results of contractions,
reductions, scans, sorts and scatters are points. An elementwise value becomes one when several
kernels would compute it and reading it back is cheaper than computing it again, or when it takes
the place of more bytes (early.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rushlight.compiler.fuse.early import early_points
from rushlight.compiler.sizes import Hints
from rushlight.ir.node import Node, topological

BARRIERS = frozenset(
    {"dot", "attention", "reduce", "scan", "sort", "scatter", "host", "interleave"}
)
EXPENSIVE = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc erfinv lgamma digamma sigmoid pow_ atan2 random_bits div sqrt rsqrt "
    "reciprocal remainder floor_divide fmod gather_nd".split()
)
CHECKED = "checked_first"  # an index whose check is a kernel of its own
MAX_RECOMPUTED_OPS = 8
MAX_INLINED_OPS = 160
EXPENSIVE_WEIGHT = 8
WHOLE_ROW = 16
MAX_INLINED_MOVES = 32  # views of views; a kernel builder goes down these by recursion


@dataclass
class Points:
    """`points` in topological order; `users[node]`: the points that read it through inlining;
    `weights[node]`: about how many operations its expression is."""

    points: list[Node]
    users: dict[Node, set[Node]]
    reasons: dict[Node, str] = field(default_factory=dict)
    weights: dict[Node, int] = field(default_factory=dict)

    def __contains__(self, node: Node) -> bool:
        return node in self.reasons


def choose_points(roots: Sequence[Node], hints: Hints, checks: Iterable[Node] = ()) -> Points:
    """Decide for every node below the roots; leaves are never points. `checks`: see check_first."""
    order = topological(list(roots))
    reasons: dict[Node, str] = {root: "output" for root in roots if not root.leaf}
    reasons |= dict.fromkeys(checks, CHECKED)
    users: dict[Node, set[Node]] = {node: set() for node in order}
    readers: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for source in dict.fromkeys(node.src):
            readers[source].append(node)
    repeats: dict[Node, str] = {}
    for node in reversed(order):
        for reader in readers[node]:
            users[node] |= {reader} if reader in reasons else users[reader]
        repeats[node] = _repetition(node, readers[node], reasons, repeats, hints)
        if not node.leaf and node not in reasons:
            reason = _reason(node, readers[node], users[node], reasons, repeats[node], hints)
            if reason:
                reasons[node] = reason
    reasons |= dict.fromkeys(early_points(order, readers, reasons, hints), "early")
    weights = _bound_inlining(order, reasons)
    points = [node for node in order if node in reasons]
    _recount(order, readers, reasons, users)
    return Points(points, users, reasons, weights)


def _recount(
    order: list[Node],
    readers: dict[Node, list[Node]],
    reasons: dict[Node, str],
    users: dict[Node, set[Node]],
) -> None:
    for node in reversed(order):
        users[node] = set()
        for reader in readers[node]:
            users[node] |= {reader} if reader in reasons else users[reader]


def _reason(
    node: Node,
    readers: list[Node],
    users: set[Node],
    reasons: dict[Node, str],
    repeated: str,
    hints: Hints,
) -> str:
    """Why a node must be a point, or "" when it may be inlined."""
    assert node.op is not None
    if node.op.kind in BARRIERS:
        return node.op.kind
    if node.pairs:  # read by attentions only, which never store it
        return ""
    if any(r.op is not None and r.op.kind == "host" for r in readers):
        return "host_operand"
    if is_in_pieces(node) and not _is_small(node, hints):
        return "pieces"
    # Keys, values and masks of an attention are read once per block of queries.
    in_blocks = any(u.op and u.op.kind == "attention" for u in users)
    is_operand = any(u.op and u.op.kind == "dot" for u in users)
    if is_operand and node.op.kind == "elementwise" and _is_of_rows(node, hints):
        return "operand_of_rows"
    if is_operand and _is_padded_rows(node, readers, users):
        return "padded_windows"
    # Of a moved value the source is kept: a view costs its users nothing.
    if node.op.kind == "movement" or not (repeated or in_blocks or len(users) > 1):
        return ""
    cost = _inline_cost(node, reasons, hints.numel(node), hints)
    if in_blocks and not cost.is_cheap():
        return "read_in_blocks"
    if repeated and (cost.expensive or (cost.ops > 1 and repeated == "window")):
        return "read_many_times"
    if repeated and cost.ops > MAX_RECOMPUTED_OPS:
        return "read_many_times"
    return "shared" if len(users) > 1 and not cost.is_cheap() else ""


def _repetition(
    node: Node,
    readers: list[Node],
    reasons: dict[Node, str],
    repeats: dict[Node, str],
    hints: Hints,
) -> str:
    """How an element is read more than once: "window" (by overlapping or gathered windows),
    "spread" (by every element of a larger value) or "". Views hand it on to their sources."""
    size = hints.numel(node)
    found = ""
    for reader in readers:
        if _reads_repeatedly(reader, node, size, hints):
            found = "window" if reader.name in ("unfold", "gather_nd") else found or "spread"
        is_view = reader.op is not None and reader.op.kind == "movement" and reader not in reasons
        if is_view and repeats[reader]:
            found = "window" if "window" in (found, repeats[reader]) else "spread"
    return found


def is_in_pieces(node: Node) -> bool:
    """Written region by region. An update of a constant is not: it is a masked read."""
    return node.name == "cat" or (node.name == "slice_scatter_" and not _is_constant(node.src[0]))


def _is_constant(node: Node) -> bool:
    return node.leaf in ("const", "scalar") or (
        node.name in ("expand", "reshape") and _is_constant(node.src[0])
    )


def _is_small(node: Node, hints: Hints) -> bool:
    return hints.numel(node) <= 64


def _reads_repeatedly(reader: Node, node: Node, size: int, hints: Hints) -> bool:
    if reader.name == "gather_nd":
        return reader.src[0] is node
    return (
        reader.op is not None
        and reader.op.kind in ("movement", "elementwise")
        and (hints.numel(reader) > size and reader.name != "cat" and reader.name != "pad")
    )


@dataclass
class _Cost:
    ops: int = 0
    expensive: int = 0
    loads: int = 0

    def is_cheap(self) -> bool:
        return not self.expensive and self.ops <= MAX_RECOMPUTED_OPS and self.loads <= 1


def _inline_cost(node: Node, reasons: dict[Node, str], size: int, hints: Hints) -> _Cost:
    """What computing `node` in place costs: ops and big loads of its inlined cone."""
    cost = _Cost()
    seen: set[Node] = set()
    stack = [node]
    while stack:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        is_read = here.leaf == "buffer" or (here is not node and _is_kept(here, reasons))
        if is_read:
            cost.loads += hints.numel(here) * 4 >= size
            continue
        if here.leaf:
            continue
        assert here.op is not None
        if here.op.kind not in ("movement", "iota"):
            cost.ops += 1
            cost.expensive += here.name in EXPENSIVE and hints.numel(here) * 4 > size
        if cost.ops > MAX_RECOMPUTED_OPS:
            return cost
        stack.extend(here.src)
    return cost


def _is_of_rows(node: Node, hints: Hints) -> bool:
    """Made of several values as large and of their sums: the kernel of the sums has them at hand
    and stores one, where a product that makes it would read them all again (a norm's gradient)."""
    if node.name == "cast" and node.dtype.itemsize > node.src[0].dtype.itemsize:
        return False  # the narrow value, which is smaller, is asked in its turn
    size, loads, rows, seen, stack = hints.numel(node), 0, False, {node}, list(node.src)
    while stack and len(seen) < MAX_INLINED_OPS // 2:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        if here.leaf == "buffer" or _is_kept(here, {}):
            loads += hints.numel(here) * 4 >= size
            rows = rows or (here.op is not None and here.op.kind == "reduce")
        else:
            stack.extend(here.src)
    return rows and loads > 1


def _is_padded_rows(node: Node, readers: list[Node], users: set[Node]) -> bool:
    """Padding around windows one beside the other, in whole vectors of outputs: stored, a product
    reads its rows as they lie and asks for no element whether it is there."""
    if node.name != "pad" or any(user.name == "dot_sliding" for user in users):
        return False
    if any(r.name != "unfold" or r.attr("step") != 1 or r.attr("dilation") != 1 for r in readers):
        return False
    widths = [node.shape[-1] - reader.attr("size") + 1 for reader in readers]
    return all(isinstance(width, int) and width % WHOLE_ROW == 0 for width in widths)


def _is_kept(node: Node, reasons: dict[Node, str]) -> bool:
    return node in reasons or (node.op is not None and node.op.kind in BARRIERS)


def _bound_inlining(order: list[Node], reasons: dict[Node, str]) -> dict[Node, int]:
    """Cut chains whose inlined expression would grow without limit; the weights of all nodes.

    A kernel ends at such a cut (see group.py), so the pieces of a regular chain are equal programs.
    """
    weight: dict[Node, int] = {}
    moves: dict[Node, int] = {}
    for node in order:
        if node.leaf:
            weight[node], moves[node] = 1, 0
            continue
        sources = list(dict.fromkeys(node.src))
        inlined = sum(1 if s in reasons or s.leaf else weight[s] for s in sources)
        weight[node] = _own_weight(node) + inlined
        if weight[node] > MAX_INLINED_OPS:
            weight[node] = _distinct_weight(node, weight, reasons)
        depth = max((moves[s] for s in sources if s not in reasons), default=0)
        moves[node] = depth + (node.op is not None and node.op.kind != "elementwise")
        too_long = weight[node] > MAX_INLINED_OPS or moves[node] > MAX_INLINED_MOVES
        if too_long and node not in reasons and not node.pairs:
            reasons[node] = "long_chain"
    return weight


def _own_weight(node: Node) -> int:
    return EXPENSIVE_WEIGHT if node.name in EXPENSIVE else 1


def _distinct_weight(root: Node, weight: dict[Node, int], reasons: dict[Node, str]) -> int:
    """The weight with a value that is read twice at one place counted once; below a movement places
    differ. (Each part of a complex number reads both parts of the one before it.)"""
    total, seen, stack = 0, {root}, [root]
    while stack:
        here = stack.pop()
        if here is not root and (here.leaf or here in reasons):
            total += 1
            continue
        if here is not root and here.op is not None and here.op.kind == "movement":
            total += weight[here]
            continue
        total += _own_weight(here)
        fresh = [s for s in dict.fromkeys(here.src) if s not in seen]
        seen.update(fresh)
        stack += fresh
    return total
