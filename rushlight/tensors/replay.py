"""A captured call as data: where its inputs come from, the program, where its results go.

In: the tensors of a call. Out: its result, with all that it changes put in place. Always true: a
replay whose guards hold reads the memory that the call would read, and overwrites memory only
where nobody else can see it.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.autograd.node import SpentFn
from rushlight.base.pytree import unflatten
from rushlight.engine.capture import settle
from rushlight.engine.failures import RunFailed
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.programs import Layout, Program
from rushlight.engine.realize import flush, launch
from rushlight.engine.snapshot import Snapshot
from rushlight.ir.node import Node, buffer_node
from rushlight.runtime.allocator import ALIGN
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Grad, Tensor, make_view, new_tensor

_TENSOR_PARTS = operator.attrgetter("_storage", "_shape", "_dtype", "_view", "_grad")
_GRAD_PARTS = operator.attrgetter("requires", "fn", "retained", "hooks", "post_hooks")


class TensorGuards:
    """The tensors that code reaches are the same objects in the same state (not values)."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.parts = list(map(_TENSOR_PARTS, tensors))
        self.metas = [t._grad for t in tensors if t._grad is not None]
        self.grads = [
            (requires, fn, retained, hooks and dict(hooks), post and dict(post))
            for requires, fn, retained, hooks, post in map(_GRAD_PARTS, self.metas)
        ]

    def holds(self) -> bool:
        return (
            list(map(_TENSOR_PARTS, self.tensors)) == self.parts
            and list(map(_GRAD_PARTS, self.metas)) == self.grads
        )


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
             versions that it moves on)
    rates    (group, key) of the optimizers' rates that `tracked` numbers and predicates follow
    fixed_arguments  (number, storage): arguments that the code also reaches by itself
    had_grad (owner, is there a gradient, its storage if the code also reaches it by itself)
    grads    (owner: tensor or argument number, maker of the tensor or None)
    outputs  (slot among the leaves, maker)
    draws    (generator, offsets used, [(number position, offset or None for the seed)])
    """

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

    def __post_init__(self) -> None:
        self.fixed = [p if kind == "storage" else None for kind, p in self.sources.where]
        self.has_views = any(kind == "view" for kind, _ in self.sources.where)
        pairs = list(enumerate(self.sources.where))
        self.last_rates = [group[key] for group, key in self.rates]
        own = {result for _, result, _, _ in self.updates}.union(self.grad_results)
        self.room = Room(self.program, self.layout, self.inputs, own)
        self.moving = [(i, kind, p) for i, (kind, p) in pairs if kind != "storage"]

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        for number, storage in self.fixed_arguments:
            if tensors[number]._storage is not storage:
                return False
        for owner, had, storage in self.had_grad:
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
        found = self._find(tensors)
        if found is None:
            return NotImplemented
        storages, nodes = found
        buffers = [node.buffer for node in nodes[: self.inputs]]
        for i in self.donated:
            # Held by the list and by a node, which a storage and the list of nodes hold alone.
            buffer = buffers[i]
            if buffer.foreign or sys.getrefcount(buffer) > 4 or sys.getrefcount(nodes[i]) > 3:
                buffers[i] = _copied(buffer)
        numbers = self.numbers
        for generator, used, positions in self.draws:
            seed, offset = generator.draw(used)
            for position, step in positions:
                numbers[position] = seed if step is None else offset + step
        buffer = None
        with Uninterrupted(bool(self.donated)):
            results = self.room.take(buffers)
            try:
                launch(self.program, self.values, self.layout, buffers, results, numbers)
            except RunFailed as failed:
                for generator, used, _ in self.draws:
                    generator.draw(-used)
                raise failed.error from None
            return self._place(results, storages, nodes, tensors)

    def _find(self, tensors: Sequence[Tensor]) -> tuple[list[Any], list[Node]] | None:
        """The storages and the nodes they hold, all in memory; None if they are others."""
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
        if len(set(places)) != len(places):
            return None
        for storage in places:
            if storage.node.leaf != "buffer":
                settle(storage)
                if storage.node.leaf != "buffer":
                    flush([s.node for s in places])
        nodes = [storage.node for storage in places]
        if self.has_views:
            forget_values(tensors)
        return places, nodes

    def _place(
        self, results: list[Buffer], storages: list[Any], nodes: list[Node], tensors: Any
    ) -> Any:
        leaves = self.leaves.copy()
        made: dict[Any, Any] = {}
        for slot, maker in self.outputs:
            leaves[slot] = maker(results, storages, nodes, tensors, made)
        for owner, maker in self.grads:
            tensor = tensors[owner] if owner.__class__ is int else owner
            value = None if maker is None else maker(results, storages, nodes, tensors, made)
            tensor._grad.grad = value
        for place, result, other, versions in self.updates:
            storage = storages[place]
            old = nodes[place]
            new = nodes[other] if result < 0 else buffer_node(results[result], old.shape, old.dtype)
            if storage.foreign is None:
                storage.node = new
            else:
                storage.foreign[...] = new.buffer.view(old.dtype, old.shape)
            storage.version += versions
        return unflatten(self.spec, leaves)


@dataclass(frozen=True)
class Maker:
    """Makes a tensor that a call gives back, or a gradient, anew.

    Its storage is that at `place`, or a new one on `result`, or on the value at `other`. `shown`:
    (steps, shape, strides, offset) of a view. `tensor` and `storage`: ids at the capture; what was
    one object then is one object now. `spent`: name of the function of a value whose backward ran
    in the call.
    """

    tensor: int
    storage: int
    place: int
    result: int
    other: int
    shape: tuple
    dtype: Any
    shown: tuple | None
    label: str
    spent: str

    def __call__(self, results: Any, storages: Any, nodes: Any, arguments: Any, made: dict) -> Any:
        found = made.get(self.tensor)
        if found is not None:
            return found
        base = made.get((self.storage,))
        if base is None:
            base = made[self.storage,] = self._base(results, storages, nodes)
        if self.shown is not None:
            base = make_view(base, *self.shown, self.label)
        if self.spent:
            base._grad = Grad(SpentFn((), ((base._shape, self.dtype),), self.spent))
        made[self.tensor] = base
        return base

    def _base(self, results: Any, storages: Any, nodes: Any) -> Tensor:
        if self.result >= 0:
            return new_tensor(buffer_node(results[self.result], self.shape, self.dtype))
        if self.place < 0:
            return new_tensor(nodes[self.other])
        base = new_tensor(storages[self.place].node)
        base._storage = base._counter = storages[self.place]
        return base


class Room:
    """Memory for the results of a replay.

    Small results that stay with the model (weights, states, gradients) share one block: they live
    and die together. What goes to the caller has memory of its own.
    """

    SMALL_BYTES = 1 << 14

    def __init__(self, program: Program, layout: Layout, inputs: int, own: set[int]) -> None:
        reuse = program.plan.meta["reuse"]
        self.parts: list[tuple[int, int, int]] = []  # kind (input number, or -1, -2), bytes, offset
        total = 0
        for result, nbytes in enumerate(layout.result_bytes):
            source = reuse.get(inputs + result, -1)
            if source < 0 and result in own and nbytes <= self.SMALL_BYTES:
                self.parts.append((-2, nbytes, total))
                total += -(-nbytes // ALIGN) * ALIGN
            else:
                self.parts.append((source, nbytes, 0))
        self.total = total

    def take(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        block = allocate(self.total) if self.total else None
        start = 0 if block is None else block.address
        return [
            Buffer(start + offset, nbytes, block, False) if kind == -2
            else allocate(nbytes) if kind == -1 else buffers[kind]
            for kind, nbytes, offset in self.parts
        ]  # fmt: skip


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


def _copied(buffer: Buffer) -> Buffer:
    made = allocate(buffer.nbytes)
    np.asarray(made)[...] = np.asarray(buffer)
    return made
