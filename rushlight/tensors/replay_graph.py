"""A call whose outputs are differentiated outside of it, made again without its Python.

In: the tensors of a call, and what `replay_graph_build.py` found when it was captured. Out: its
result: the nodes of the call over the values that its arguments and the tensors that it reaches
have now (ir/recipe.py), with its tape as one gradient function (autograd/call_fn.py). Tensors that
the call changes in place (running statistics of a norm) get the nodes of their new values.

Always true: nothing is computed. The nodes wait, and are one program with the loss and the backward
pass, as those of ordinary lazy code are. Where a replay cannot do what the code would do now, it
has changed nothing and drawn no random number, and the code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakSet

from rushlight.autograd.call_fn import CallFn, Template
from rushlight.autograd.saved import hold
from rushlight.base.config import Value
from rushlight.base.devices import DEVICES
from rushlight.base.pytree import LEAF, unflatten
from rushlight.engine.bound import limit_pending
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.origin import note_again
from rushlight.engine.program import Program
from rushlight.engine.realize import PENDING, flush
from rushlight.engine.snapshot import Snapshot
from rushlight.engine.undo import RISK, note_change
from rushlight.ir.node import Node
from rushlight.ir.recipe import Again, NotPlain, Recipe
from rushlight.tensors.before import StorageBefore
from rushlight.tensors.index_checks import is_wrong
from rushlight.tensors.replay import AS_CODE, TensorGuards
from rushlight.tensors.storage import EAGER
from rushlight.tensors.tensor import WATCH, Grad, Tensor, edge_of, new_tensor

_node = attrgetter("node")
_foreign = attrgetter("foreign")
_inference = attrgetter("_storage.inference")


class GraphReplay:
    """What is needed to make the call again.

    arguments  those whose value is a slot of the recipe, by number; then come the slots of `fixed`
               storages, and of values that the call itself puts into memory
    storages   the storages among `fixed`
    indices    (tensor or number of an argument, what `is_wrong` asks) for each lookup
    inputs     tensors (or numbers of arguments) to which the gradients go
    updates    (storage or number of an argument, place of its new value)
    counters   (counter or number of an argument, versions that it moves on)
    risks      (place of a value at which a run may end, lines that recorded it)
    bases      (place of the value, version, number of the root or None) of each new storage
    outputs    (slot among the leaves, maker)
    saved      places of the saved values
    checks     (number of a saved value, whose memory it is, the version that it must have): the
               version of now (None) of an input or argument; one of the capture, of a base
    draws      (generator, offsets used, [seed, first offset] of the call that runs)
    settings   under which what it records is compiled (the mode and options of `compile`)
    programs   gets what is compiled under them
    """

    argument_parts = attrgetter("__class__", "_shape", "_dtype", "_view", "_grad")

    def __init__(self, snapshot: Snapshot, tensors: TensorGuards) -> None:
        self.snapshot, self.tensors = snapshot, tensors
        self.arguments: list[int] = []
        self.fixed: list[Any] = []
        self.storages: list[Any] = []
        self.recipe = Recipe((), (), _never)
        self.template = Template()
        self.indices: list[tuple[Any, tuple]] = []
        self.inputs: list[Any] = []
        self.edges: list[Any] = []
        self.updates: list[tuple[Any, int]] = []
        self.counters: list[tuple[Any, int]] = []
        self.risks: list[tuple[int, tuple[str, ...]]] = []
        self.bases: list[tuple[int, int, int | None]] = []
        self.outputs: list[tuple[int, Callable[..., Tensor]]] = []
        self.saved: list[int] = []
        self.checks: list[tuple[int, Any, int | None]] = []
        self.draws: list[tuple[Any, int, list[int]]] = []
        self.leaves: list[Any] = []
        self.spec: Any = None
        self.settings: Mapping[str, Value] = {}
        self.programs: WeakSet[Program] = WeakSet()

    def holds(self, _: Sequence[Tensor]) -> bool:
        """Is everything that the code reads, but for values, as it was?"""
        return self.tensors.holds() and self.snapshot.holds()

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The result of the call; AS_CODE where its Python must run."""
        if self._needs_code(tensors):
            return AS_CODE
        PENDING.ask(self.settings, self.programs)
        slots = [tensors[number]._value() for number in self.arguments]
        slots += map(_node, self.fixed)
        for generator, used, numbers in self.draws:
            numbers[:] = generator.draw(used)
        values = self.recipe.run(slots)
        for place, lines in self.risks:
            note_again(values[place], lines)
        if self.updates or self.counters:
            self._update(tensors, values)
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

    def _needs_code(self, tensors: Sequence[Tensor]) -> bool:
        if ORIGIN.on or DEVICES.used or WATCH.seen is not None or any(map(_inference, tensors)):
            return True
        if not all([foreign is None for foreign in map(_foreign, self.storages)]):
            if not all([storage.reclaim() for storage in self.storages]):
                return True  # memory that others write: the code takes a snapshot
        return any(  # the code raises the error, after what it does before
            is_wrong(tensors[owner] if owner.__class__ is int else owner, *check)
            for owner, check in self.indices
        )

    def _update(self, tensors: Sequence[Tensor], values: list[Node]) -> None:
        """Change tensors in place as the call does, all at once: a run that ends at an index takes
        all of it back."""
        counters = [
            (tensors[owner]._counter if owner.__class__ is int else owner, versions)
            for owner, versions in self.counters
        ]
        before = [(counter, counter.version) for counter, _ in counters] if RISK.waits else []
        for owner, place in self.updates:
            storage = tensors[owner]._storage if owner.__class__ is int else owner
            old = storage.node
            storage.replace(values[place])
            if RISK.waits and storage.foreign is None:
                note_change(storage, old, StorageBefore(old, before))
        for counter, versions in counters:
            counter.version += versions

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
