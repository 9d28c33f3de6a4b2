"""One gradient function for a call that was made again as a whole (a replay of compiled code).

In: the tape that the call had when it was recorded. Out: a `Template`, that tape on leaves that
stand for values, and for each later call a `CallFn` with the values that it saved. Always true: the
gradients are the nodes that the functions of the call itself would make, in their order.

The gradient of a gradient is that of a graph over what was saved (node.py, `run_graph`). What
reaches a saved value made in the call goes through outputs of the function that no tensor has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from rushlight.autograd.fn_recipe import run_kept
from rushlight.autograd.graph import GraphFn, placeholder
from rushlight.autograd.node import SECOND_TIME, AccumulateGrad, GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.autograd.record_fn import RecordFn, run_graph
from rushlight.autograd.rules import Rules, reachable
from rushlight.autograd.saved import Saved
from rushlight.ir.node import Node
from rushlight.ir.recipe import NotPlain

Edge = tuple[Any, int]  # a function, and which of its outputs
NAME = "CompiledFunctionBackward"


class _Stand:
    """In the place of a saved value: a leaf."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def holder(self) -> _Stand:
        return self


class Template:
    """The functions of a call, copied.

    roots    what has a gradient: outputs of the call
    likes    of the roots
    inside   the same for values inside that were saved, as roots: for gradients of gradients
    ends     copy of the function of an input -> number of the input
    slots    the leaves that stand for saved values; `values` are those of the capture
    sources  of each slot, where its own gradient flows to: (is it an input?, number of the input or
             of the root inside), or None
    saves    what the functions saved, as (value, its counter, the version that it must have)
    """

    def __init__(self) -> None:
        self.roots: list[Edge] = []
        self.likes: list[Any] = []
        self.ends: dict[Any, int] = {}
        self.slots: list[Node] = []
        self.values: list[Node] = []
        self.sources: list[tuple[bool, int] | None] = []
        self.saves: list[tuple[Node, Any, int]] = []
        self.places: list[int] = []
        self.kept: dict[tuple, Any] = {}
        self.inside: Template | None = None

    def of_inside(self) -> Template:
        """`inside`, for a part that is being filled."""
        if self.inside is None:
            made = self.inside = Template()
            made.ends, made.slots, made.places = self.ends, self.slots, self.places
            made.sources, made.inside = self.sources, made
        return self.inside

    def grads(self, values: Sequence[Node], given: Sequence[Node | None]) -> list[Node | None]:
        """Run the rules: gradients of the inputs, from those of the roots (None: there is none)."""
        return self.grads_at([values[place] for place in self.places], given)

    def grads_at(self, slots: Sequence[Node], given: Sequence[Node | None]) -> list[Node | None]:
        """The same, with a value for each slot."""
        pairs = [(r, g) for r, g in zip(self.roots, given, strict=True) if g is not None]
        order = reachable([fn for (fn, _), _ in pairs])
        index = {fn: number for number, fn in enumerate(order)}
        rules = Rules(index, dict(zip(self.slots, slots, strict=True)))
        found: list[Node | None] = [None] * len(self.ends)
        for number, node in rules.run([r for r, _ in pairs], [g for _, g in pairs]):
            found[self.ends[order[number]]] = node
        return found


class CallFn(GradFn):
    """holders: of the distinct saved values; checks: (number of a holder, counter, version)."""

    __slots__ = ("template", "holders", "checks", "released")

    def __init__(
        self, template: Template, edges: Sequence[Any], holders: list[Any],
        checks: list[tuple[int, Any, int]],
    ) -> None:  # fmt: skip
        super().__init__(edges, template.likes, NAME)
        self.template, self.holders, self.checks = template, holders, checks
        self.released = False

    def is_gone(self) -> bool:
        """Was something that it saved let go, or changed?"""
        return self.released or any(
            [counter.version != version for _, counter, version in self.checks]
        )

    def run_rules(
        self, value: Callable[[Node], Node], grads: Sequence[Node | None]
    ) -> list[Node | None]:
        """Gradients of the inputs, on leaves: `value(node)` gives what stands for a saved node."""
        return self.template.grads([value(holder.node) for holder in self.holders], grads)

    def _values(self) -> list[Node]:
        if self.released:
            raise RuntimeError(SECOND_TIME)
        for number, counter, version in self.checks:
            if counter.version != version:
                saved = Saved(self.holders[number].node, counter, None)
                saved.version = version
                saved.node()  # raises
        return [holder.node for holder in self.holders]

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        values, template = self._values(), self.template
        given = [None if grad is None else TENSORS.value(grad) for grad in grads]
        if create_graph:
            return self._apply_recorded(values, grads, given)
        present = [i for i, node in enumerate(given) if node is not None]

        def rule(nodes: Sequence[Node]) -> list[Node | None]:
            roots: list[Node | None] = [None] * len(given)
            for i, node in zip(present, nodes[len(values) :], strict=True):
                roots[i] = node
            return template.grads(nodes[: len(values)], roots)

        everything = [*values, *[given[i] for i in present]]
        likes = [(node.shape, node.dtype) for node in everything[len(values) :]]  # type: ignore
        head = (*present, *likes)
        found = run_kept(template.kept, head, everything, rule)  # type: ignore[arg-type]
        return [None if node is None else TENSORS.make(node) for node in found]

    def _apply_recorded(
        self, values: list[Node], grads: list[Any], given: list[Node | None]
    ) -> Sequence[Any]:
        template = self.template
        # One leaf for each slot: equal values may have gradients that flow to different places.
        slots = [_stand(values[i]) for i in template.places]
        roots = [None if node is None else placeholder(node.shape, node.dtype) for node in given]
        found = template.grads_at(slots, roots)
        inside = None
        if template.inside is not None:
            inside = CallFn(template.inside, self.edges, self.holders, self.checks)
        rows = [
            (slot, values[place], self._source(source, inside))
            for slot, place, source in zip(slots, template.places, template.sources, strict=True)
            if slot.leaf == "buffer"
        ]
        rows += [
            (root, node, TENSORS.edge(grad))
            for root, node, grad in zip(roots, given, grads, strict=True)
            if root is not None
        ]  # type: ignore[misc]
        inputs, nodes, edges = (list(column) for column in zip(*rows, strict=True))
        likes = [(node.shape, node.dtype) for node in nodes]
        return run_graph(GraphFn(inputs, found), nodes, edges, likes, NAME)

    def _source(self, source: tuple[bool, int] | None, inside: Any) -> Any:
        if source is None:
            return None
        is_input, number = source
        return self.edges[number] if is_input else (inside, number)

    def release(self) -> None:
        if self.holders:
            self.holders, self.checks, self.released = [], [], True


def _stand(node: Node) -> Node:
    return node if node.leaf in ("const", "scalar") else placeholder(node.shape, node.dtype)


def copy_tape(
    roots: Sequence[Edge], inputs: dict[Edge, int], first: int, template: Template
) -> list[int]:
    """Fill a template with what is below `roots`. `inputs`: where a tape of others begins; no other
    function older than `first` belongs to the call. Gives the inputs that are reached, in the order
    of the gradients. NotPlain: the tape has more than functions of ops."""
    return _Copy(inputs, first, template).run(roots)


class _Copy:
    def __init__(self, inputs: dict[Edge, int], first: int, template: Template) -> None:
        self.inputs, self.first, self.template = inputs, first, template
        self.copies: dict[GradFn, RecordFn] = {}
        self.ends: dict[int, AccumulateGrad] = {}
        self.slots: dict[tuple[Node, Any], _Stand] = {}
        self.roots: dict[Edge, int] = {}

    def run(self, roots: Sequence[Edge]) -> list[int]:
        template = self.template
        order = reachable_in_call([fn for fn, _ in roots], self.inputs)
        # A gradient of one output with regard to another would not see that it is made from it.
        inner = {edge for fn in order for edge in fn.edges}
        if inner.intersection(roots):
            raise NotPlain
        for fn in order:
            self._copy(fn)
        template.roots = [(self.copies[fn], number) for fn, number in roots]
        template.likes = [fn.likes[number] for fn, number in roots]
        for original in order:
            self._fill(original)  # type: ignore[arg-type]
        distinct = {node: i for i, node in enumerate(dict.fromkeys(n for n, _ in self.slots))}
        template.values = list(distinct)
        template.places = [distinct[node] for node, _ in self.slots]
        template.ends = {end: number for number, end in enumerate(self.ends.values())}
        for (_, edge), stand in self.slots.items():
            template.slots.append(stand.node)
            template.sources.append(self._source(edge))
        return list(self.ends)

    def _copy(self, fn: GradFn) -> None:
        plain = (
            fn.__class__ is RecordFn and fn.sequence > self.first and not fn.released  # type: ignore[attr-defined]
            and not (fn.hooks or fn.retains or fn.pre_hooks or fn.post_hooks or fn.spent)
        )  # fmt: skip
        if not plain:
            raise NotPlain
        edges = [self._edge(edge) for edge in fn.edges]
        copy = self.copies[fn] = RecordFn(fn.form, edges, fn.label)  # type: ignore[attr-defined]
        copy.sequence = fn.sequence

    def _edge(self, edge: Any) -> Any:
        if edge is None or edge[0] is None:
            return None
        number = self.inputs.get(edge)
        if number is None:
            if edge[0] not in self.copies:
                raise NotPlain
            return (self.copies[edge[0]], edge[1])
        if number not in self.ends:
            shape, dtype = edge[0].likes[edge[1]]
            self.ends[number] = AccumulateGrad(SimpleNamespace(_shape=shape, dtype=dtype))
        return (self.ends[number], 0)

    def _fill(self, fn: RecordFn) -> None:
        copy = self.copies[fn]
        for i, saved in fn.saved.items():
            edge = copy.edges[i] if i < len(copy.edges) else None
            copy.saved[i] = self._stand(saved, edge)
        if fn.saved_out is not None:
            copy.saved_out = self._stand(fn.saved_out, (copy, 0))

    def _stand(self, saved: Saved, edge: Any) -> Any:
        """What is in the place of a saved value."""
        node = saved.holder.node if saved.holder is not None else None
        if node is None or saved.counter is not None and saved.counter.version != saved.version:
            raise NotPlain
        if saved.counter is not None:
            self.template.saves.append((node, saved.counter, saved.version))
        if node.leaf == "const":
            return _Stand(node)
        found = self.slots.get((node, edge))
        if found is None:
            found = self.slots[node, edge] = _Stand(placeholder(node.shape, node.dtype))
        return found

    def _source(self, edge: Any) -> tuple[bool, int] | None:
        if edge is None:
            return None
        template = self.template
        if edge[0] in template.ends:
            return True, template.ends[edge[0]]
        if edge not in self.roots:
            inside = template.of_inside()
            self.roots[edge] = len(inside.roots)
            inside.roots.append(edge)
            inside.likes.append(edge[0].likes[edge[1]])
        return False, self.roots[edge]


def reachable_in_call(start: Sequence[GradFn], inputs: dict[Edge, int]) -> list[GradFn]:
    """As `reachable`, without what is behind the inputs."""
    seen: dict[GradFn, None] = {}
    waiting = list(start)
    while waiting:
        fn = waiting.pop()
        if fn in seen:
            continue
        seen[fn] = None
        waiting += [
            e[0] for e in fn.edges if e is not None and e[0] is not None and e not in inputs
        ]
    return sorted(seen, key=lambda fn: fn.sequence)
