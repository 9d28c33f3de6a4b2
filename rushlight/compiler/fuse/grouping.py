"""Points -> groups: which points share a kernel.

before   points: reduce_max, exp, reduce_sum, div (softmax)     after   one group "rows"

A group has axes and gives each member its coordinates in them. A point joins the group of a value
it reads when (1) every member that it reads is read exactly at that member's own coordinates, and
(2) no path leads from the group through another group back into it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from rushlight.compiler.decisions import SILENT, Choice, Decision, Trace
from rushlight.compiler.fuse.group import Group
from rushlight.compiler.fuse.materialize import CHECKED, Points, is_in_pieces
from rushlight.compiler.fuse.pairs import (
    PairSpace,
    result_coordinates,
    shares_products,
    space_of,
)
from rushlight.compiler.fuse.places import place_shape, reads_of, same_place
from rushlight.compiler.sizes import Hints
from rushlight.compiler.tile.coords import axes_of, reshape_coords
from rushlight.ir.node import Node, nearest_below
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import product

MAX_WEIGHT = 600  # operations of a kernel: compile time grows faster than their number
MIN_ROWS = 16
SMALL_NUMEL = 1 << 15

# A word and what was seen, for people: made into text only when somebody listens.
Reason = tuple[Any, ...]


class Grouping:
    """The state of grouping: points are added in topological order."""

    def __init__(
        self, points: Points, hints: Hints, trace: Trace = SILENT, most_buffers: int = 0
    ) -> None:
        self.points, self.hints, self.trace = points, hints, trace
        self.most_buffers = most_buffers
        self.groups: list[Group] = []
        self._numbers = itertools.count()
        self.group_of: dict[Node, Group] = {}
        self._reads: dict[tuple[Node, tuple], list[tuple[Node, tuple]]] = {}
        self._readers: dict[Node, list[Group]] = {}
        self._pairs: dict[PairSpace, list[Group]] = {}

    def run(self) -> list[Group]:
        for node in self.points.points:
            self._place(node)
        return self.groups

    # joining ------------------------------------------------------------------------------------

    def _place(self, node: Node) -> None:
        assert node.op is not None
        sources = self._sources(node)
        group = None
        if self.points.reasons[node] == CHECKED:
            group = self._join_checks(node, sources)
        elif node.op.kind == "reduce":
            group = self._join_reduce(node, sources)
        elif node.op.kind == "attention":
            group = self._join_attention(node, sources)
        elif _is_map(node):
            group = self._join_map(node, sources)
        if group is None:
            group = self._new_group(node)
            self._note(node, group, ("starts_a_kernel", group.kind), "yes")
        for source in sources:
            other = self.group_of.get(source)
            if other is not None and self._is_twin(group, other, node, sources):
                self._merge(group, other)
                self._note(node, group, ("joins_two_kernels",), "yes")
        self._link(group, node, sources)

    def _note(self, node: Node, group: Group, reason: Reason, choice: str = "no") -> None:
        if self.trace is not SILENT:
            word, *seen = reason
            shown = [str(list(part) if isinstance(part, tuple) else part) for part in seen]
            text = word + (": " + " ".join(shown) if shown else "")
            self.trace.choose(Choice("fuse", Decision(choice, (text,)), node, group))

    def _join_reduce(self, node: Node, sources: list[Node]) -> Group | None:
        dims = node.attrs[0]
        for group in self._candidates(node, sources):
            refusal = self._reduce_refusal(group, node)
            if not refusal:
                trial = _as_rows(group, dims) if group.kind == "map" else group
                refusal = self._refusal(trial, node, trial.row_axes, sources)
            if refusal:
                self._note(node, group, refusal)
                continue
            if group.kind == "map":
                group.kind, group.reduced = "rows", dims
            group.at[node] = group.row_axes
            self._note(node, group, ("same_rows",), "yes")
            return group
        return None

    def _reduce_refusal(self, group: Group, node: Node) -> Reason:
        """Why a reduction cannot be part of a group of this kind and shape (() if it can)."""
        shape, dims = node.src[0].shape, node.attrs[0]
        if group.kind not in ("map", "rows", "split"):
            return ("not_in_such_a_kernel", group.kind)
        if group.shape != shape:
            return ("not_same_shape", shape, group.kind, group.shape)
        if group.kind != "map":
            same = group.reduced == dims
            return () if same else ("other_dims_reduced", dims, group.reduced)
        rows = product(n for d, n in enumerate(shape) if d not in dims)
        if not self._has_enough_rows(shape, rows):
            return ("too_few_rows", rows)
        same = all(place_shape(m) == shape for m in group.members)
        return () if same else ("kernel_holds_other_shapes",)

    def _join_attention(self, node: Node, sources: list[Node]) -> Group | None:
        """Results over the same pairs come from one kernel."""
        space = space_of(node)
        for group in self._pairs.get(space, ()):
            if shares_products(group.members[0], node):
                at = result_coordinates(node, group.axes, len(group.members))
                refusal = self._refusal(group, node, at, sources)
                if not refusal:
                    group.at[node], group.head[node] = at, node
                    self._note(node, group, ("same_scores",), "yes")
                    return group
                self._note(node, group, refusal)
        return None

    def _join_map(self, node: Node, sources: list[Node]) -> Group | None:
        for group in self._candidates(node, sources):
            refusal: Reason = ("not_same_shape", node.shape, group.kind, group.shape)
            for at in self._coordinates(group, node, sources):
                refusal = self._refusal(group, node, at, sources)
                if not refusal:
                    group.at[node] = at
                    if group.kind == "attention":
                        group.head[node] = self._head(group, sources)  # type: ignore
                    self._note(node, group, self._why(group, node, sources), "yes")
                    return group
            self._note(node, group, refusal)
        return None

    def _join_checks(self, node: Node, sources: list[Node]) -> Group | None:
        """Indices of one shape are checked by one kernel, which does nothing else."""
        for group in self.groups:
            if group.kind == "check" and group.shape == node.shape:
                refusal = self._refusal(group, node, group.axes, sources)
                if not refusal:
                    group.at[node] = group.axes
                    return group
        return None

    def _candidates(self, node: Node, sources: list[Node]) -> list[Group]:
        """Groups that compute a source (latest first), then groups that read one too."""
        found = dict.fromkeys(self.group_of[s] for s in reversed(sources) if s in self.group_of)
        ordered = sorted(found, key=lambda g: (g.kind not in ("dot", "attention"), -g.number))
        for source in sources:
            for group in self._readers.get(source, ())[-4:]:
                if group not in found:
                    found[group] = None
                    ordered.append(group)
        for group in ordered:
            if group.weight >= MAX_WEIGHT:
                self._note(node, group, ("kernel_full", MAX_WEIGHT))
        return [g for g in ordered if g.weight < MAX_WEIGHT and self._has_room(g, [node], sources)]

    def _has_room(self, group: Group, nodes: list[Node], sources: Iterable[Node]) -> bool:
        """May the kernel have the buffers that these nodes want? As if all members were stored."""
        if not self.most_buffers:
            return True
        outside = group.reads.union(s for s in sources if s not in group.at)
        return len(outside) + len(group.members) + len(nodes) <= self.most_buffers

    @staticmethod
    def _head(group: Group, sources: list[Node]) -> Node | None:
        """The one result of an attention that is read, or None."""
        heads = {group.head[source] for source in sources if source in group.head}
        return heads.pop() if len(heads) == 1 else None

    def _coordinates(self, group: Group, node: Node, sources: list[Node]) -> list[tuple]:
        """Where `node` could lie in the group's axes."""
        shape = place_shape(node)
        if group.kind == "attention":
            head = self._head(group, sources)
            if head is None or product(shape) != product(head.shape):
                return []
            return [reshape_coords(group.at[head], head.shape, shape)]
        if group.kind in ("map", "rows", "dot"):
            if shape == group.shape:
                return [group.axes]
            if group.kind != "rows" and product(shape) == product(group.shape):
                return [reshape_coords(group.axes, group.shape, shape)]
        if group.kind in ("rows", "split"):
            if shape == group.row_shape:
                return [group.row_axes]
            if product(shape) == product(group.row_shape):
                return [reshape_coords(group.row_axes, group.row_shape, shape)]
        return []

    def _refusal(self, group: Group, node: Node, at: tuple, sources: list[Node]) -> Reason:
        """Why `node` cannot lie at `at` in the group (() if it can)."""
        bit = 1 << group.number
        for source in sources:
            other = self.group_of.get(source)
            if other is not None and other is not group and other.before & bit:
                return ("would_make_a_cycle", source.name)
        is_reduce = node.op is not None and node.op.kind == "reduce"
        if group.kind == "split" and is_reduce and any(s in group.at for s in sources):
            return ("needs_finished_rows",)  # its operand: another pass over the data
        if node.op is not None and node.op.kind == "attention":
            # An lse beside its own output is no reason: that is made of the same scores.
            wrong = next((x for x in sources if x in group.at and x.name != "flash_lse"), None)
            return () if wrong is None else ("needs_finished_rows", wrong.name)
        where = self._where(group, node, at)
        for source, read_at in self._reads_of(node, where):
            if source in group.at and self.points.reasons[source] == "long_chain":
                return ("long_chain", source.name)
            if source in group.at and not same_place(read_at, group.at[source], source):
                return ("read_elsewhere", source.name)
        return ()

    def _why(self, group: Group, node: Node, sources: list[Node]) -> Reason:
        """What made the group a candidate."""
        for source in reversed(sources):
            if self.group_of.get(source) is group:
                return ("reads_own_element", source.name)
        return ("reads_the_same_input",)

    def _where(self, group: Group, node: Node, at: tuple) -> tuple:
        """The coordinates at which a member's inputs are evaluated."""
        return group.axes if node.op is not None and node.op.kind == "reduce" else at

    def _has_enough_rows(self, shape: tuple, rows: int | Expr) -> bool:
        return self.hints(rows) >= MIN_ROWS or self.hints(product(shape)) <= SMALL_NUMEL

    def _is_twin(self, group: Group, other: Group, node: Node, sources: list[Node]) -> bool:
        """Both work on the same rows, neither needs the other, and `node` reads of the second only
        what lies at its own place: one kernel can do the work of both."""
        if other is group or not group.kind == other.kind == "rows":
            return False
        if (group.shape, group.reduced) != (other.shape, other.reduced):
            return False
        # Neither needs the other, now or by way of what `node` reads.
        needed = [self.group_of[s] for s in sources if s in self.group_of]
        if any(g.before >> other.number & 1 for g in (group, *needed)):
            return False
        if other.before >> group.number & 1:
            return False
        if not self._has_room(group, other.members, other.reads):
            return False
        where = self._where(group, node, group.at[node])
        return group.weight + other.weight < MAX_WEIGHT and all(
            same_place(at, other.at[source], source)
            for source, at in self._reads_of(node, where)
            if source in other.at
        )

    # bookkeeping --------------------------------------------------------------------------------

    def _new_group(self, node: Node) -> Group:
        assert node.op is not None
        kind, shape, reduced = node.op.kind, place_shape(node), ()
        if kind == "reduce":
            shape, reduced = node.src[0].shape, node.attrs[0]
            rows = product(n for d, n in enumerate(shape) if d not in reduced)
            kind = "rows" if self._has_enough_rows(shape, rows) else "split"
        elif self.points.reasons[node] == CHECKED:
            kind = "check"
        elif is_in_pieces(node):
            kind = "pieces"
        elif _is_map(node):
            kind = "map"
        space = space_of(node) if kind == "attention" else None
        if space is not None:
            shape = space.shape
        group = Group(kind, next(self._numbers), shape, axes_of(shape), reduced)
        group.at[node] = group.row_axes if reduced else group.axes
        if space is not None:
            group.at[node], group.head[node] = result_coordinates(node, group.axes, 0), node
            self._pairs.setdefault(space, []).append(group)
        self.groups.append(group)
        return group

    def _merge(self, group: Group, other: Group) -> None:
        """`other` becomes part of `group`."""
        group.members = other.members + group.members
        group.at = other.at | group.at
        group.weight += other.weight
        group.reads |= other.reads
        self.group_of.update(dict.fromkeys(other.members, group))
        self.groups.remove(other)
        for readers in self._readers.values():
            readers[:] = [group if reader is other else reader for reader in readers]
        old, new = 1 << other.number, 1 << group.number
        group.before |= other.before
        for later in self.groups:
            if later.before & old:
                later.before = later.before & ~old | new
            if later.before & new:
                later.before |= group.before

    def _link(self, group: Group, node: Node, sources: list[Node]) -> None:
        group.members.append(node)
        group.weight += self.points.weights.get(node, 1)
        self.group_of[node] = group
        gained = 0
        group.reads.update(source for source in sources if source not in group.at)
        for source in sources:
            self._readers.setdefault(source, []).append(group)
            other = self.group_of.get(source)
            if other is not None and other is not group:
                gained |= other.before | (1 << other.number)
        if gained & ~group.before:
            group.before |= gained
            bit = 1 << group.number
            for later in self.groups:
                if later.before & bit:
                    later.before |= group.before

    def _sources(self, node: Node) -> list[Node]:
        """The points and buffers that `node` reads through inlined nodes."""
        return nearest_below(node, lambda here: here.leaf == "buffer" or here in self.points)

    def _reads_of(self, node: Node, where: tuple) -> list[tuple[Node, tuple]]:
        """(source, coordinates) of every read when `node` is evaluated at `where`."""
        key = (node, where)
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = reads_of(node, where, self.points)
        return found


def _is_map(node: Node) -> bool:
    assert node.op is not None
    kinds = ("elementwise", "movement", "iota", "random", "gather", "interleave")
    return node.op.kind in kinds and not is_in_pieces(node)


def group_points(
    points: Points, hints: Hints, trace: Trace = SILENT, most_buffers: int = 0
) -> list[Group]:
    """Groups in an order in which they can run. `most_buffers`: of one kernel; 0: any number."""
    groups = Grouping(points, hints, trace, most_buffers).run()
    return _in_order(groups)


def _in_order(groups: list[Group]) -> list[Group]:
    """Stable topological order by `before`."""
    done = 0
    waiting = list(groups)
    ordered: list[Group] = []
    while waiting:
        rest = []
        for group in waiting:
            if group.before & ~done:
                rest.append(group)
            else:
                ordered.append(group)
                done |= 1 << group.number
        assert len(rest) < len(waiting), "groups depend on each other in a cycle"
        waiting = rest
    return ordered


def _as_rows(group: Group, dims: tuple[int, ...]) -> Group:
    """What a map group would be with a reduction in it."""
    trial = Group("rows", group.number, group.shape, group.axes, dims)
    trial.at, trial.members = group.at, group.members
    return trial
