"""From a captured call to a `GraphReplay`: how its nodes, its tape and its changes are made again.

In: a `Session` that is over, the tensors its code can reach, the call's result, whose outputs are
differentiated outside. Out: the `GraphReplay`. Always true: what cannot be made again by nodes
alone (functions of the user, hooks, tensors that live on outside, a host function that may refuse,
memory that numpy sees) is refused, and the call stays ordinary lazy code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

from rushlight.autograd.call_fn import copy_tape
from rushlight.base.dtypes import int64
from rushlight.base.errors import user_line
from rushlight.base.pytree import flatten
from rushlight.engine.capture import Session
from rushlight.engine.checks import SIMPLE
from rushlight.engine.live import Ref, live_refs
from rushlight.engine.origin import lines_of
from rushlight.engine.snapshot import Snapshot
from rushlight.ir.node import NO_VALUE, Node, scalar_node, topological
from rushlight.ir.recipe import Again, NotPlain, Recipe
from rushlight.tensors.replay import TensorGuards
from rushlight.tensors.replay_build import Refused, check_kept, moved_counters
from rushlight.tensors.replay_graph import GraphReplay
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Tensor, edge_of, make_view


def build(
    session: Session, snapshot: Snapshot, guards: TensorGuards, arguments: Sequence[Tensor],
    result: Any, first: int,
) -> GraphReplay:  # fmt: skip
    """Explain a captured call. `first`: number of the last gradient function before it."""
    return _Build(session, snapshot, guards, arguments, first).run(result)


class _Build:
    def __init__(
        self, session: Session, snapshot: Snapshot, guards: TensorGuards,
        arguments: Sequence[Tensor], first: int,
    ) -> None:  # fmt: skip
        self.session, self.snapshot, self.first = session, snapshot, first
        self.arguments = arguments
        self.made = GraphReplay(snapshot, guards)
        self.fixed = {t._storage: t for t in snapshot.tensors}
        self.bases: list[Tensor] = []

    def run(self, result: Any) -> GraphReplay:
        self._check_state(result)
        self._changes()
        made = self.made
        leaves, made.spec = flatten(result)
        if not all(isinstance(leaf, (Tensor, *SIMPLE)) for leaf in leaves):
            raise Refused("it returns an object of a class that is not known")
        made.leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        tensors = [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for _, leaf in tensors:
            self._maker(leaf)  # first, so that `bases` are those with a history
        made.outputs = [(i, self._maker(leaf)) for i, leaf in tensors]
        self._tape()
        check_kept(self._kept)
        self._recipe()
        return made

    def _check_state(self, result: Any) -> None:
        session = self.session
        if session.grads or session.tracked or session.predicates:
            raise Refused("it reads or changes gradients")
        for generator, (seed, start) in session.draws.items():
            if generator._seed != seed:
                raise Refused("it changes a random seed")
            self.made.draws.append((generator, generator._offset - start, [seed, start]))
        if any(t._storage in self.fixed for t in self.arguments):
            raise Refused("an argument is also read by another name")
        if isinstance(result, (list, dict)) and self.snapshot.met(result):
            raise Refused("it returns an object that was there before the call")

    # changes ------------------------------------------------------------------------------------

    def _changes(self) -> None:
        """What the call changes in place, and which indices it looks up."""
        session, made = self.session, self.made
        self.changed: list[Storage] = []
        for ref, before in session.known.items():
            if not isinstance(ref, Storage):
                continue
            versions = ref.version - session.versions[ref]
            if ref.node is before and not versions:
                continue
            number = self._whole_argument(ref)
            if number is None and ref not in self.fixed:
                raise Refused("it changes a tensor that was not found from the names in its code")
            owner = ref if number is None else number
            if ref.node is not before:
                self.changed.append(ref)
                made.updates.append((owner, -1))
        made.counters = moved_counters(session, self.arguments)
        known = [*self.arguments, *self.snapshot.tensors]
        made.indices = [
            (self._owner(index), tuple(check))
            for index, *check in session.indices
            if any(index is tensor for tensor in known)
        ]

    def _whole_argument(self, storage: Any) -> int | None:
        """The number of the argument that shows all of this storage."""
        numbers = [
            i for i, t in enumerate(self.arguments) if t._storage is storage and t._view is None
        ]
        return numbers[0] if numbers else None

    # results ------------------------------------------------------------------------------------

    def _maker(self, tensor: Tensor) -> Callable[..., Tensor]:
        """What gives this output again, from (new storages' tensors, arguments, made before)."""
        for number, argument in enumerate(self.arguments):
            if argument is tensor:
                return lambda bases, arguments, made: arguments[number]
        if any(tensor is other for other in self.snapshot.tensors):
            return lambda bases, arguments, made: tensor
        view, key = tensor._view, id(tensor)
        if view is None:
            base = self._base(tensor)
            if self.bases[base] is tensor:
                return lambda bases, arguments, made: bases[base]
            if tensor._grad is not None:
                raise Refused("it returns memory with two histories")
            return _once(key, lambda bases, arguments: bases[base].detach())
        self._check_view(tensor)
        parts = (view.own, tensor._shape, view.strides, view.offset, view.label)
        if any(view.base is other for other in (*self.arguments, *self.snapshot.tensors)):
            owner = self._owner(view.base)
            if owner.__class__ is int:
                return _once(key, lambda bases, arguments: make_view(arguments[owner], *parts))
            return _once(key, lambda bases, arguments: make_view(owner, *parts))
        base = self._base(view.base)
        if self.bases[base] is not view.base:
            raise Refused("it returns a view of memory with two histories")
        return _once(key, lambda bases, arguments: make_view(bases[base], *parts))

    def _check_view(self, tensor: Tensor) -> None:
        view, meta = tensor._view, tensor._grad
        base = None if view is None else view.base
        plain = (
            view is not None and base is not None and base._view is None and view.tracked
            and view.own == view.steps and not view.one_of and not view.widens
            and type(tensor) is Tensor and not tensor.__dict__
            and tensor._counter is tensor._storage is base._storage and _is_untouched(tensor)
            and (meta is None or meta.base_fn is (base._grad and base._grad.fn))
        )  # fmt: skip
        if not plain:
            raise Refused("it returns a view of a special kind")

    def _base(self, tensor: Tensor) -> int:
        """Number of the new storage that this tensor shows as a whole."""
        storage = tensor._storage
        plain = (
            type(tensor) is Tensor and not tensor.__dict__ and tensor._counter is storage
            and tensor._view is None and storage not in self.session.known
            and storage.foreign is None and storage.inference is False and storage.tag is None
            and _is_untouched(tensor)
        )  # fmt: skip
        if not plain:
            raise Refused("it returns a tensor that is not a new one")
        meta = tensor._grad
        if meta is not None and meta.requires and meta.fn is None:
            raise Refused("it returns a leaf that requires a gradient")
        for number, other in enumerate(self.bases):
            if other._storage is storage:
                if other._grad is None and meta is not None:
                    self.bases[number] = tensor
                return number
        self.bases.append(tensor)
        return len(self.bases) - 1

    def _kept(self) -> bool:
        """Of what was saved, too: only the tape has it, each function once, and `saves` once."""
        bases = {base._storage for base in self.bases}
        saves = Counter(id(counter) for _, counter, _ in self.made.template.saves)
        alone = [getrefcount(ref) for ref in [object()]][0]
        refs = live_refs()
        counts = [getrefcount(ref) - alone for ref in refs]
        return any(
            not ref.saved
            and ref not in self.session.known
            and ref not in bases
            and (count != 2 * saves[id(ref)] or not count)
            for ref, count in zip(refs, counts, strict=True)
        )

    # gradients ----------------------------------------------------------------------------------

    def _tape(self) -> None:
        tensors = {id(t): t for t in (*self.arguments, *self.snapshot.tensors) if t.requires_grad}
        edges: dict[Any, int] = {}
        for number, tensor in enumerate(tensors.values()):
            if edges.setdefault(edge_of(tensor), number) != number:
                raise Refused("two tensors that it reads have one history")
        roots, number = [], 0
        for base in self.bases:
            meta, root = base._grad, None
            if meta is not None and meta.fn is not None:
                roots.append((meta.fn, meta.number))
                root, number = number, number + 1
            self.made.bases.append((-1, base._storage.version, root))
        try:
            reached = copy_tape(roots, edges, self.first, self.made.template)
        except NotPlain:
            raise Refused("its history has more than operations") from None
        found = list(tensors.values())
        self.made.inputs = [self._owner(found[i]) for i in reached]
        self.counters = {t._counter: self._owner(t) for t in tensors.values()}
        self.counters.update((t._counter, self._owner(t)) for t in self.snapshot.tensors)
        self.counters.update((t._counter, self._owner(t)) for t in self.arguments)

    def _owner(self, tensor: Tensor) -> Any:
        """The argument's number, or the tensor itself."""
        return next((i for i, other in enumerate(self.arguments) if other is tensor), tensor)

    def _checks(self) -> None:
        template, storages = self.made.template, [base._storage for base in self.bases]
        found: dict[Any, None] = {}
        for node, counter, version in template.saves:
            if node.leaf == "const":
                continue
            number = template.values.index(node)
            if counter in self.counters:
                found[number, self.counters[counter], None] = None
            elif counter in storages:
                found[number, storages.index(counter), version] = None
            elif isinstance(counter, Storage) and counter in self.session.known:
                raise Refused("it saves a tensor that was not found from the names in its code")
        self.made.checks = list(found)

    # values -------------------------------------------------------------------------------------

    def _recipe(self) -> None:
        made, template = self.made, self.made.template
        self._checks()
        nodes = [base._storage.node for base in self.bases]
        updated = [storage.node for storage in self.changed]
        wanted = [*nodes, *updated, *template.values]
        risks: list[Node] = []
        slots: dict[Node, Any] = {}
        for node in topological(wanted):
            if node.leaf == "buffer":
                slots[node] = self._slot(node)
            elif not node.leaf:
                if node.op.may_refuse:  # type: ignore[union-attr]
                    raise Refused(f"the host may refuse what it asks, at {node.name}")
                if lines_of(node):
                    risks.append(node)
        order = sorted(slots, key=lambda node: slots[node].__class__ is not int)
        made.arguments = [slots[node] for node in order if slots[node].__class__ is int]
        made.fixed = [slots[node] for node in order[len(made.arguments) :]]
        try:
            made.recipe = Recipe(order, [*wanted, *risks], self._again)
        except NotPlain:
            raise Refused("it reads a number that cannot be read again") from None
        places = made.recipe.outputs
        made.bases = [(place, *rest) for place, (_, *rest) in zip(places, made.bases, strict=False)]  # type: ignore[misc]
        changed = places[len(nodes) : len(nodes) + len(updated)]
        made.updates = [(o, place) for (o, _), place in zip(made.updates, changed, strict=True)]
        made.saved = places[len(nodes) + len(updated) : len(wanted)]
        here = user_line()
        lines = [tuple("" if line == here else line for line in lines_of(n)) for n in risks]
        made.risks = list(zip(places[len(wanted) :], lines, strict=True))
        made.storages = [fixed for fixed in made.fixed if isinstance(fixed, Storage)]
        template.values, template.saves = [], []

    def _slot(self, node: Node) -> Any:
        """Where a replay finds this value: an argument's number, or what holds it."""
        session = self.session
        if node in session.views:
            return session.views[node]
        ref = session.held.get(node)
        if ref is None:
            if node.serial > session.start and node not in session.private:
                if node.buffer is not None and node.buffer is not NO_VALUE:
                    return Ref(node)
            raise Refused("it uses history from before the call, or a random state")
        number = self._whole_argument(ref)
        if number is not None:
            return number
        if ref not in self.fixed:
            raise Refused("it uses a tensor that was not found from the names in its code")
        return ref

    def _again(self, node: Node) -> Again:
        origin = node.buffer
        if origin is None:
            return lambda values: node
        for generator, _, numbers in self.made.draws:
            if getattr(origin, "__self__", None) is generator:
                if origin.__name__ == "_key":
                    return lambda values: scalar_node(numbers[0], int64, origin)
                step = node.attrs[0] - self.session.draws[generator][1]
                return lambda values: scalar_node(numbers[1] + step, int64, origin)
        raise NotPlain


def _once(key: int, make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A maker of an output that is one object, however often it is returned."""

    def maker(bases: Sequence[Tensor], arguments: Sequence[Tensor], made: dict) -> Tensor:
        found = made.get(key)
        if found is None:
            found = made[key] = make(bases, arguments)
        return found

    return maker


def _is_untouched(tensor: Tensor) -> bool:
    """No gradient, no hook, no record that somebody else has."""
    meta = tensor._grad
    return meta is None or not (
        meta.hooks or meta.post_hooks or meta.retained or meta.grad is not None
    )
