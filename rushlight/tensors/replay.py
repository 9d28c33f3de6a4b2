"""A captured call as data: where its inputs come from, the program, where its results go.

In: the tensors of a call. Out: its result, with all that it changes put in place. Always true: a
replay whose guards hold reads the memory that the call would read, and overwrites memory only
where nobody else can see it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from rushlight.base.pytree import LEAF, unflatten
from rushlight.engine.capture import settle
from rushlight.engine.checks import Checks, Compared
from rushlight.engine.failures import RunFailed, with_line
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.program import Layout, Program
from rushlight.engine.realize import flush, run_at
from rushlight.engine.snapshot import Snapshot
from rushlight.ir.node import Node
from rushlight.runtime.buffer import Buffer
from rushlight.tensors.overwrite import Overwritten, put
from rushlight.tensors.replay_maker import Maker
from rushlight.tensors.replay_room import HeldGrads, Room
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Tensor

TENSOR_SLOTS = ("_storage", "_shape", "_dtype", "_view", "_grad", "_counter")
TENSOR_PARTS = operator.attrgetter(*TENSOR_SLOTS)
_grad = operator.attrgetter("_grad.grad")
_is = operator.is_
# In the place of a result: the function must run as ordinary code this time.
AS_CODE = object()
GRAD_SLOTS = ("requires", "fn", "retained", "hooks", "post_hooks")
_GRAD_PARTS = operator.attrgetter(*GRAD_SLOTS)


class TensorGuards:
    """The tensors that code reaches are the same objects in the same state (not values)."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.parts = list(map(TENSOR_PARTS, tensors))
        self.metas = [t._grad for t in tensors if t._grad is not None]
        self.grads = [
            (requires, fn, retained, _copied(hooks), _copied(post))
            for requires, fn, retained, hooks, post in map(_GRAD_PARTS, self.metas)
        ]
        self.compared = Compared(self._holds, self._write)

    def holds(self) -> bool:
        return self.compared.holds()

    def _holds(self) -> bool:
        return (
            list(map(TENSOR_PARTS, self.tensors)) == self.parts
            and list(map(_GRAD_PARTS, self.metas)) == self.grads
        )

    def _write(self, checks: Checks) -> None:
        pairs = [*zip(self.tensors, repeat(TENSOR_SLOTS), self.parts)]
        pairs += zip(self.metas, repeat(GRAD_SLOTS), self.grads)
        for owner, slots, values in pairs:
            for slot, value in zip(slots, values, strict=True):
                place, name = f"{checks.name(owner)}.{slot}", checks.name(value)
                check = f"{place} is {name}"
                by_value = isinstance(value, (tuple, dict))
                checks.add(f"({check} or {place} == {name})" if by_value else check)
            checks.next()


def _copied(hooks: dict | None) -> dict | None:
    """As they are now: a dict that is empty may get some later."""
    return None if hooks is None else dict(hooks)


@dataclass
class Sources:
    """Where the storages come from, in the order in which a replay reads them.

    `where[i]` is ("storage", Storage), ("argument", number), ("grad", tensor or argument number),
    ("view", argument number; its value, never written) or ("data", Node).
    """

    where: list[tuple[str, Any]] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def add(self, key: Any, kind: str, payload: Any) -> int:
        if key not in self.places:
            self.places[key] = len(self.where)
            self.where.append((kind, payload))
        return self.places[key]


@dataclass(eq=False)
class Replay:
    """Everything a replay needs; see the module docstring.

    updates  (place of the storage, result or -1, place of the value where there is no result,
             versions that it moves on, where `counters` do not say it)
    rates    (group, key) of the optimizers' rates that `tracked` numbers and predicates follow
    fixed_arguments  (number, storage): arguments that the code also reaches by itself
    had_grad (owner, is there a gradient, its storage if the code also reaches it by itself)
    grads    (owner: tensor or argument number, maker of the tensor or None)
    outputs  (slot among the leaves, maker)
    draws    (generator, offsets used, [(number position, offset or None for the seed)])
    counters (counter of versions, or number of the argument that has it; versions to move on)
    lines    of host functions, by the position of their nodes
    """

    argument_parts = operator.attrgetter(
        "__class__", "_shape", "_dtype", "_view", "_grad", "_storage.foreign"
    )

    snapshot: Snapshot
    tensors: TensorGuards
    fixed_arguments: list[tuple[int, Storage]]
    had_grad: list[tuple[Any, bool, Storage | None]]
    rates: list[tuple[dict, str]]
    predicates: list[tuple[Callable[[], Any], Any]]
    program: Program
    values: np.ndarray
    layout: Layout
    sources: Sources
    inputs: int
    donated: frozenset[int]
    numbers: list[Any]
    tracked: list[tuple[int, Callable[[], float]]]
    draws: list[tuple[Any, int, list[tuple[int, int | None]]]]
    updates: list[tuple[int, int, int, int]]
    grads: list[tuple[Any, Any]]
    outputs: list[tuple[int, Any]]
    leaves: list[Any]
    spec: Any
    grad_results: set[int]
    counters: list[tuple[Any, int]]
    lines: dict[int | None, str]

    def __post_init__(self) -> None:
        self.fixed = [p if kind == "storage" else None for kind, p in self.sources.where]
        self.has_views = any(kind == "view" for kind, _ in self.sources.where)
        pairs = list(enumerate(self.sources.where))
        self.last_rates = [group[key] for group, key in self.rates]
        self.moving = [(i, kind, p) for i, (kind, p) in pairs if kind != "storage"]
        self.overwritten = Overwritten(sorted(self.donated))
        reuse = self.program.plan.reuse
        # A storage whose new value is written over the old one keeps its node.
        stays = [u for u in self.updates if u[1] >= 0 and reuse.get(self.inputs + u[1]) == u[0]]
        self.stays = {place for place, _, _, _ in stays}
        self.moved = [u for u in self.updates if u not in stays]
        self.versions = [(place, versions) for place, _, _, versions in self.updates if versions]
        self.fixed_counters = [c for c in self.counters if c[0].__class__ is not int]
        self.argument_counters = [c for c in self.counters if c[0].__class__ is int]
        self.is_leaf = self.spec == LEAF
        self.overwrites = bool(self.donated)
        owners = [owner for owner, _, _ in self.had_grad]
        # Gradients of tensors that are always the same, all there and not reached another way.
        self.plain_grads = bool(owners) and all(
            had and fixed is None and owner.__class__ is not int
            for owner, had, fixed in self.had_grad
        )
        self.grad_owners = owners if self.plain_grads else []
        self._plan_memory()

    def _plan_memory(self) -> None:
        made = [(owner, maker) for owner, maker in self.grads if isinstance(maker, Maker)]
        held = [(owner, maker) for owner, maker in made if self._may_be_held(owner, maker)]
        self.held = None
        if held and len(held) == len(self.grads):
            likes = [(maker.shape, maker.dtype) for _, maker in held]
            self.held = HeldGrads([owner for owner, _ in held], likes)
        grads = [maker.result for _, maker in held] if self.held else []
        own = {result for _, result, _, _ in self.updates if result >= 0}
        own = own.union(self.grad_results).difference(grads, (-1,))
        others = [r for r in range(len(self.layout.result_bytes)) if r not in own.union(grads)]
        self.room = Room(self.program, self.layout, self.inputs, sorted(own), others, grads)
        makers = [m for _, m in (*self.outputs, *self.grads) if isinstance(m, Maker)]
        over = {result for result, _ in self.room.over}
        # Some result that lies where an input does is more than that input's new value.
        self.needs_all = bool(self.moved) or any(m.result in over for m in makers)

    def _may_be_held(self, owner: Any, maker: Maker) -> bool:
        """A gradient made anew by each call, whose old value the call does not read."""
        uses = sum(
            maker.result == result
            for result in (
                *(other.result for _, other in self.grads if isinstance(other, Maker)),
                *(result for _, result, _, _ in self.updates),
            )
        )
        reads = any(kind == "grad" and payload is owner for kind, payload in self.sources.where)
        had = any(other is owner and was for other, was, fixed in self.had_grad if fixed is None)
        outputs = any(
            isinstance(other, Maker)
            and (other.result == maker.result or other.storage == maker.storage)
            for _, other in self.outputs
        )
        is_plain = maker.result >= 0 and maker.shown is None and not maker.spent
        reuse = self.program.plan.reuse
        return (
            had and is_plain and uses == 1 and not reads and not outputs
            and self.inputs + maker.result not in reuse
        )  # fmt: skip

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        for number, storage in self.fixed_arguments:
            if tensors[number]._storage is not storage:
                return False
        if self.plain_grads:
            if any(map(_is, map(_grad, self.grad_owners), repeat(None))):
                return False
        for owner, had, storage in () if self.plain_grads else self.had_grad:
            meta = (tensors[owner] if owner.__class__ is int else owner)._grad
            if (meta is not None and meta.grad is not None) is not had:
                return False
            if storage is not None and meta.grad._storage is not storage:  # type: ignore[union-attr]
                return False
        return self._rates_hold() and self.tensors.holds() and self.snapshot.holds()

    def _rates_hold(self) -> bool:
        """Read the rates again; what was asked of them has the same answers."""
        try:
            rates = [group[key] for group, key in self.rates]
            if all(map(operator.is_, rates, self.last_rates)):
                return True
            if any(type(rate) is not float for rate in rates):
                return False
            if any([read() != answer for read, answer in self.predicates]):
                return False
        except KeyError:
            return False
        for position, read in self.tracked:
            self.numbers[position] = read()
        self.last_rates = rates
        return True

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The result of the call, or NotImplemented when memory is not as it was captured."""
        storages = self._find(tensors)
        if storages is None:
            return NotImplemented
        try:
            nodes = [storage.node for storage in storages]
            addresses = [node.buffer.address for node in nodes]
        except AttributeError:  # a value that waits, or a number
            nodes = _into_memory(storages)
            addresses = [node.buffer.address for node in nodes]
        if self.has_views:
            forget_values(tensors)
        copies = self.overwritten.copies(nodes)
        if copies and self._reclaimed(storages, nodes):
            return self.run(tensors)
        for place, copy in copies.items():
            addresses[place] = copy.address
        held = self.held.find(tensors) if self.held is not None else ()
        with Uninterrupted(self.overwrites):
            results = self.room.take(addresses[: self.inputs], held)
            arena = self.room.with_arena()
            self._compute(nodes)
            del arena
            if copies or self.needs_all:
                for result, place in self.room.over:
                    results[result] = copies.get(place) or nodes[place].buffer
            return self._place(results, storages, nodes, tensors, copies, bool(held))

    def _reclaimed(self, storages: list[Any], nodes: list[Node]) -> bool:
        """Take back memory that numpy looked at and nobody looks at now. Was there any?"""
        shown = [s for s in storages if s.__class__ is Storage and s.foreign is not None]
        nodes.clear()  # which would count as holders
        found = [storage.reclaim() for storage in shown]
        nodes += [storage.node for storage in storages]
        return any(found)

    def _compute(self, nodes: list[Node]) -> None:
        """Run the program; random numbers are used only if it comes to its end."""
        numbers = self.numbers
        for generator, used, positions in self.draws:
            seed, offset = generator.draw(used)
            for position, step in positions:
                numbers[position] = seed if step is None else offset + step
        try:
            run_at(self.program, self.room.pointers, self.values, nodes, numbers)
        except BaseException as ended:
            for generator, used, _ in self.draws:
                generator.draw(-used)
            if isinstance(ended, RunFailed):
                raise with_line(ended.error, self.lines.get(ended.at, "")) from None
            raise

    def _find(self, tensors: Sequence[Tensor]) -> list[Any] | None:
        """The storages; None if two of them are one now, or one is not of its kind."""
        places: list[Any] = self.fixed.copy()
        for place, kind, payload in self.moving:
            if kind == "argument":
                places[place] = tensors[payload]._storage
            elif kind == "grad":
                owner = tensors[payload] if payload.__class__ is int else payload
                grad = owner._grad.grad
                if grad._view is not None or grad._shape != owner._shape:
                    return None
                places[place] = grad._storage
            elif kind == "view":
                places[place] = Held(tensors[payload]._value())
            else:
                places[place] = payload
        if self.moving and len(set(places)) != len(places):
            return None
        return places

    def _place(
        self, results: list[Buffer], storages: list[Any], nodes: list[Node], tensors: Any,
        copies: dict[int, Buffer], has_held: bool,
    ) -> Any:  # fmt: skip
        leaves = self.leaves.copy()
        made: dict[Any, Any] = {}
        for slot, maker in self.outputs:
            leaves[slot] = maker(results, storages, nodes, tensors, made)
        for owner, maker in () if has_held else self.grads:
            tensor = tensors[owner] if owner.__class__ is int else owner
            value = None if maker is None else maker(results, storages, nodes, tensors, made)
            tensor._grad.grad = value
        for place, result, other, _ in self.moved:
            put(storages[place], nodes[place], results[result] if result >= 0 else nodes[other])
        for place, copy in copies.items():
            if place in self.stays:
                put(storages[place], nodes[place], copy)
        for place, versions in self.versions:
            storages[place].version += versions
        for counter, versions in self.fixed_counters:
            counter.version += versions
        for number, versions in self.argument_counters:
            tensors[number]._counter.version += versions
        return leaves[0] if self.is_leaf else unflatten(self.spec, leaves)


def _into_memory(storages: list[Any]) -> list[Node]:
    """The nodes of these storages, computed."""
    for storage in storages:
        settle(storage)
    if any(storage.node.leaf != "buffer" for storage in storages):
        flush([storage.node for storage in storages])
    return [storage.node for storage in storages]


class Held:
    """A value in the place of a storage."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def forget_values(tensors: Sequence[Tensor]) -> None:
    """A view keeps no computed value: no flush would know that its memory is in use."""
    for tensor in tensors:
        if tensor._view is not None:
            tensor._node = tensor._seen = None


def reclaim(tensors: Sequence[Tensor]) -> None:
    """Take back memory that numpy looked at and nobody looks at now."""
    for tensor in tensors:
        if tensor._storage.foreign is not None:
            tensor._storage.reclaim()
