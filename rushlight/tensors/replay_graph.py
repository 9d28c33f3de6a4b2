"""A call whose outputs are differentiated outside of it, made again without its Python.

In: a captured call that ends so. Out: a `GraphReplay`: the nodes of the call as a recipe over its
arguments and the tensors that it reaches (ir/recipe.py), and its tape as one gradient function
(autograd/call_fn.py). Nothing is computed: the nodes wait, and are one program with the loss and
the backward pass, as those of ordinary lazy code are. Always true: what cannot be made again by
nodes alone (a tensor changed in place, an index that is checked, functions of the user, hooks) is
refused, and the call stays ordinary lazy code.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

from rushlight.autograd.call_fn import CallFn, Template, copy_tape
from rushlight.autograd.node import hold
from rushlight.base.config import Value
from rushlight.base.devices import DEVICES
from rushlight.base.dtypes import int64
from rushlight.base.pytree import LEAF, flatten, unflatten
from rushlight.engine.bound import limit_pending
from rushlight.engine.capture import Session
from rushlight.engine.live import Ref, live_refs
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.origin import may_fail
from rushlight.engine.realize import PENDING, flush
from rushlight.engine.snapshot import SIMPLE, Snapshot
from rushlight.ir.node import NO_VALUE, Node, scalar_node, topological
from rushlight.ir.recipe import Again, NotPlain, Recipe
from rushlight.tensors.replay import AS_CODE, TensorGuards
from rushlight.tensors.replay_build import Refused
from rushlight.tensors.storage import EAGER, Storage
from rushlight.tensors.tensor import WATCH, Grad, Tensor, edge_of, make_view, new_tensor

_node = attrgetter("node")
_inference = attrgetter("_storage.inference")


class GraphReplay:
    """What is needed to make the call again.

    arguments  those whose value is a slot of the recipe, by number; then come the slots of `fixed`
               storages, and of values that the call itself puts into memory
    inputs     tensors (or numbers of arguments) to which the gradients go
    bases      (place of the value, version, number of the root or None) of each new storage
    outputs    (slot among the leaves, maker)
    saved      places of the saved values
    checks     (number of a saved value, whose memory it is, the version that it must have): the
               version of now (None) of an input or argument; one of the capture, of a base
    draws      (generator, offsets used, [seed, first offset] of the call that runs)
    settings   under which what it records is compiled (the mode and options of `compile`)
    """

    argument_parts = attrgetter("__class__", "_shape", "_dtype", "_view", "_grad")

    def __init__(self, snapshot: Snapshot, tensors: TensorGuards) -> None:
        self.snapshot, self.tensors = snapshot, tensors
        self.arguments: list[int] = []
        self.fixed: list[Any] = []
        self.recipe = Recipe((), (), _never)
        self.template = Template()
        self.inputs: list[Any] = []
        self.edges: list[Any] = []
        self.bases: list[tuple[int, int, int | None]] = []
        self.outputs: list[tuple[int, Callable[..., Tensor]]] = []
        self.saved: list[int] = []
        self.checks: list[tuple[int, Any, int | None]] = []
        self.draws: list[tuple[Any, int, list[int]]] = []
        self.leaves: list[Any] = []
        self.spec: Any = None
        self.settings: Mapping[str, Value] = {}

    def holds(self, _: Sequence[Tensor]) -> bool:
        """Is everything that the code reads, but for values, as it was?"""
        return self.tensors.holds() and self.snapshot.holds()

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The result of the call; AS_CODE where its Python must run."""
        if ORIGIN.on or DEVICES.used or WATCH.seen is not None or any(map(_inference, tensors)):
            return AS_CODE
        PENDING.settings |= self.settings
        slots = [tensors[number]._value() for number in self.arguments]
        slots += map(_node, self.fixed)
        for generator, used, numbers in self.draws:
            numbers[:] = generator.draw(used)
        values = self.recipe.run(slots)
        bases = [new_tensor(values[place]) for place, _, _ in self.bases]
        fn = self._function(tensors, values, bases)
        for base, (_, version, root) in zip(bases, self.bases, strict=True):
            base._storage.version = version
            if root is not None:
                base._grad = Grad(fn, root)
        leaves = self.leaves.copy()
        made: dict[Any, Tensor] = {}
        for slot, maker in self.outputs:
            leaves[slot] = maker(bases, tensors, made)
        if EAGER.wanted:  # large memory of others was read
            EAGER.wanted = False
            flush([base._storage.node for base in bases])
        elif values[-1].serial >= PENDING.due:
            limit_pending(values[-1])
        return leaves[0] if self.spec == LEAF else unflatten(self.spec, leaves)

    def _function(
        self, tensors: Sequence[Tensor], values: list[Node], bases: list[Tensor]
    ) -> CallFn:
        edges = [edge_of(tensors[t] if t.__class__ is int else t) for t in self.inputs]
        # The functions of leaves that the code reaches live on: the next call need not make them.
        self.edges = [e for e, t in zip(edges, self.inputs, strict=True) if t.__class__ is not int]
        checks = []
        for number, owner, version in self.checks:
            if version is not None:
                counter = bases[owner]._storage
            else:
                counter = (tensors[owner] if owner.__class__ is int else owner)._counter
                version = counter.version
            checks.append((number, counter, version))
        return CallFn(self.template, edges, [hold(values[place]) for place in self.saved], checks)


def _never(node: Node) -> Again:
    raise NotPlain


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
        self._check_kept()
        self._recipe()
        return made

    def _check_state(self, result: Any) -> None:
        session = self.session
        if session.grads or session.tracked or session.predicates:
            raise Refused("it reads or changes gradients")
        for ref, before in session.known.items():
            if ref.node is not before or getattr(ref, "version", 0) != session.versions.get(ref, 0):
                raise Refused("it changes a tensor in place")
        for generator, (seed, start) in session.draws.items():
            if generator._seed != seed:
                raise Refused("it changes a random seed")
            self.made.draws.append((generator, generator._offset - start, [seed, start]))
        if any(t._storage in self.fixed for t in self.arguments):
            raise Refused("an argument is also read by another name")
        if isinstance(result, (list, dict)) and self.snapshot.met(result):
            raise Refused("it returns an object that was there before the call")

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
            return lambda bases, arguments, made: (
                made.get(key) or made.setdefault(key, bases[base].detach())
            )
        self._check_view(tensor)
        base = self._base(view.base)
        if self.bases[base] is not view.base:
            raise Refused("it returns a view of memory with two histories")
        shape, parts = tensor._shape, (view.strides, view.offset, view.label)
        return lambda bases, arguments, made: (
            made.get(key) or made.setdefault(key, make_view(bases[base], view.own, shape, *parts))
        )

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

    def _check_kept(self) -> None:
        """Everything made in the call that is still alive is a result."""
        if self._kept():
            gc.collect()
            if self._kept():
                raise Refused("a tensor made in the call is kept outside of it")

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
        wanted = [*nodes, *template.values]
        slots: dict[Node, Any] = {}
        for node in topological(wanted):
            if node.leaf == "buffer":
                slots[node] = self._slot(node)
            elif not node.leaf and (may_fail(node) or node.op.may_refuse):  # type: ignore[union-attr]
                raise Refused(f"a run may end in it, at {node.name}")
        order = sorted(slots, key=lambda node: slots[node].__class__ is not int)
        made.arguments = [slots[node] for node in order if slots[node].__class__ is int]
        made.fixed = [slots[node] for node in order[len(made.arguments) :]]
        try:
            made.recipe = Recipe(order, wanted, self._again)
        except NotPlain:
            raise Refused("it reads a number that cannot be read again") from None
        places = made.recipe.outputs
        made.bases = [(place, *rest) for place, (_, *rest) in zip(places, made.bases, strict=False)]  # type: ignore[misc]
        made.saved = places[len(nodes) :]
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
        for number, argument in enumerate(self.arguments):
            if argument._storage is ref and argument._view is None:
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


def _is_untouched(tensor: Tensor) -> bool:
    """No gradient, no hook, no record that somebody else has."""
    meta = tensor._grad
    return meta is None or not (
        meta.hooks or meta.post_hooks or meta.retained or meta.grad is not None
    )
