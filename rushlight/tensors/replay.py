"""A captured call as data: where its inputs come from, the program, where its results go.

In: a `Session` that is over, the tensors its code can reach, the call's result. Out: a `Replay`.
Always true: every input is reached again the way the code reached it (an argument, a tensor found
from its names, a gradient of one of these), and what cannot be reached is refused.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.autograd.node import SpentFn
from rushlight.base.pytree import flatten, unflatten
from rushlight.engine.capture import Session, settle
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.live import live_refs
from rushlight.engine.programs import Layout, Program
from rushlight.engine.realize import (
    PROGRAMS,
    find_donated,
    flush,
    launch,
    run_program,
    site_text,
    wanted,
)
from rushlight.engine.signature import Recording, record
from rushlight.engine.snapshot import SIMPLE, Snapshot
from rushlight.ir.node import Node, buffer_node
from rushlight.runtime.allocator import ALIGN
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Grad, Tensor, make_view, new_tensor
from rushlight.tensors.tracked import Tracked

_TENSOR_PARTS = operator.attrgetter("_storage", "_shape", "_dtype", "_view", "_grad")
_GRAD_PARTS = operator.attrgetter("requires", "fn", "retained", "hooks", "post_hooks")
# Names by which user code could read a learning rate itself.
RATE_NAMES = frozenset(
    "param_groups _last_lr get_last_lr get_lr state_dict defaults __dict__ __getstate__".split()
)


class Refused(RuntimeError):
    """Why a call cannot be replayed."""


class NeedsGradients(Refused):
    """The outputs are differentiated outside the call: it stays part of a larger lazy graph."""


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
        try:
            if any([read() != answer for read, answer in self.predicates]):
                return False
        except (KeyError, TypeError):
            return False
        return self.tensors.holds() and self.snapshot.holds()

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
        numbers = self.numbers.copy()
        for position, read in self.tracked:
            numbers[position] = read()
        for generator, used, positions in self.draws:
            seed, offset = generator.draw(used)
            for position, step in positions:
                numbers[position] = seed if step is None else offset + step
        buffer = None
        with Uninterrupted(bool(self.donated)):
            results = self.room.take(buffers)
            launch(self.program, self.values, self.layout, buffers, results, numbers)
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


# From a session to a replay ---------------------------------------------------------------------


class Builder:
    """Explains every input and every result of a captured call."""

    def __init__(
        self, session: Session, snapshot: Snapshot, guards: TensorGuards,
        arguments: Sequence[Tensor], result: Any, may_free: bool,
    ) -> None:  # fmt: skip
        self.session, self.snapshot, self.guards = session, snapshot, guards
        self.arguments, self.result = arguments, result
        self.free = _free_keys(session, snapshot) if may_free else {}
        self.leaves, self.spec = flatten(result)
        self.sources = Sources()
        self.ways = self._ways()
        self.grad_results: set[int] = set()
        self.values: dict[Node, tuple[int, int]] = {}  # node -> (result, -1) or (-1, source)

    def _ways(self) -> dict[Any, tuple[str, Any]]:
        """Storage or view value -> how a replay reaches it."""
        found: dict[Any, tuple[str, Any]] = {}
        for tensor in self.snapshot.tensors:
            found.setdefault(tensor._storage, ("storage", tensor._storage))
        for number, tensor in enumerate(self.arguments):
            if tensor._view is None and tensor._storage.foreign is None:
                found.setdefault(tensor._storage, ("argument", number))
        for tensor, grad in self.session.grads.values():
            owner = self.owner(tensor)
            if owner is not None and grad is not None and grad._view is None:
                found.setdefault(grad._storage, ("grad", owner))
        return found

    def owner(self, tensor: Tensor) -> Any:
        """A tensor that a replay finds: itself if it is fixed, or the argument's number."""
        if any(tensor is other for other in self.snapshot.tensors):
            return tensor
        return next((i for i, other in enumerate(self.arguments) if other is tensor), None)

    def place_of(self, storage: Any) -> int:
        way = self.ways.get(storage)
        if way is None:
            raise Refused("it uses a tensor that was not found from the names in its code")
        return self.sources.add(storage, *way)

    # computing ----------------------------------------------------------------------------------

    def run(self) -> Replay:
        """Compute what was captured and say how to do it again."""
        self._check_results()
        roots, survive = self._roots()
        recording = record(roots)
        data = self._add_inputs(recording)
        donated = find_donated(recording, survive | data)
        self.values.update((node, (i, -1)) for i, node in enumerate(recording.roots))
        updates = self._updates()
        grads, had_grad = self._grads()
        outputs = [(i, self._maker(leaf)) for i, leaf in enumerate(self.leaves)
                   if isinstance(leaf, Tensor)]  # fmt: skip
        self._check_kept()
        draws, tracked = self._numbers(recording)
        program, values = PROGRAMS.find(recording, donated, site_text)
        with Uninterrupted(bool(donated)):
            buffers = run_program(
                program, values, [node.buffer for node in recording.inputs], recording.numbers
            )
            for node, buffer in zip(recording.roots, buffers, strict=True):
                node.become_leaf(buffer)
        return Replay(
            self.snapshot.seal(self.free), self.guards, self._fixed_arguments(), had_grad,
            self.session.predicates,
            program, values, program.layout(values), self.sources, len(recording.inputs), donated,
            list(recording.numbers), tracked, draws, updates, grads, outputs,
            [None if isinstance(leaf, Tensor) else leaf for leaf in self.leaves], self.spec,
            self.grad_results,
        )  # fmt: skip

    def _fixed_arguments(self) -> list[tuple[int, Storage]]:
        ways = [(i, t._storage, self.ways.get(t._storage)) for i, t in enumerate(self.arguments)]
        return [(i, storage) for i, storage, way in ways if way and way[0] == "storage"]

    def _check_results(self) -> None:
        if isinstance(self.result, (list, dict)) and self.snapshot.met(self.result):
            raise Refused("it returns an object that was there before the call")
        for leaf in self.leaves:
            if isinstance(leaf, Tensor):
                is_new = leaf._storage not in self.session.known
                if is_new and leaf.requires_grad and not _is_spent(leaf):
                    raise NeedsGradients("its outputs are differentiated outside of it")
                if type(leaf) is not Tensor and self.owner(leaf) is None:
                    raise Refused(f"it returns a {type(leaf).__name__}")
            elif not isinstance(leaf, SIMPLE):
                raise Refused(f"it returns a {type(leaf).__name__}")

    def _roots(self) -> tuple[list[Node], set[Node]]:
        """As for a flush, without what earlier history keeps."""
        fresh = [ref for ref in live_refs() if ref.saved and ref not in self.session.known]
        if fresh:
            del fresh
            gc.collect()  # history of the call in cycles
            if any(ref.saved and ref not in self.session.known for ref in live_refs()):
                raise Refused("the history of a value is kept outside of it")
        roots, survive = wanted(())
        old = {ref.node for ref in self.session.known if ref.saved and not ref.node.leaf}
        held = {ref.node for ref in live_refs() if not ref.saved}
        roots = [node for node in roots if node not in old or node in held]
        if not roots:
            raise Refused("it computes nothing")
        return roots, survive

    def _add_inputs(self, recording: Recording) -> set[Node]:
        """Inputs get the first places. Gives those whose memory is not the program's to reuse."""
        session, data = self.session, set()
        for node in recording.inputs:
            storage = session.held.get(node)
            if storage is not None:
                before = len(self.sources.where)
                if self.place_of(storage) != before:
                    raise Refused("it reads one tensor in two ways")
            elif node in session.views:
                data.add(node)
                self.sources.add(node, "view", session.views[node])
            elif node.serial > session.start and node not in session.private:
                data.add(node)
                self.sources.add(node, "data", Held(node))
            else:
                raise Refused("it uses history from before the call, or a random state")
            self.values[node] = (-1, len(self.sources.where) - 1)
        return data

    def _value(self, node: Node) -> tuple[int, int]:
        """(result, -1), or (-1, place) for a value that was there before."""
        found = self.values.get(node)
        if found is None:
            storage = self.session.held.get(node)
            if storage is None:
                if node.leaf != "buffer" or node.serial <= self.session.start:
                    raise Refused("a result is a value from before the call")
                found = (-1, self.sources.add(node, "data", Held(node)))
            else:
                found = (-1, self.place_of(storage))
            self.values[node] = found
        return found

    # results ------------------------------------------------------------------------------------

    def _updates(self) -> list[tuple[int, int, int, int]]:
        updates = []
        for ref, before in self.session.known.items():
            if ref.saved or not isinstance(ref, Storage) or ref.node is before:
                continue
            if ref.node.leaf in ("const", "scalar"):
                ref.node = settle(ref)
            place = self.place_of(ref)
            if self.sources.where[place][0] in ("view", "data"):
                raise Refused("it changes a view that it was given")
            versions = ref.version - self.session.versions[ref]
            updates.append((place, *self._value(ref.node), versions))
        return updates

    def _grads(self) -> tuple[list[tuple[Any, Any]], list[tuple[Any, bool, Any]]]:
        grads, had_grad = [], []
        for tensor, before in self.session.grads.values():
            owner = self.owner(tensor)
            if owner is None:
                if tensor._storage in self.session.known:
                    raise Refused("it changes the gradient of a tensor that was not found")
                continue
            way = None if before is None else self.ways.get(before._storage)
            fixed = before._storage if way is not None and way[0] != "grad" else None
            had_grad.append((owner, before is not None, fixed))
            now = None if tensor._grad is None else tensor._grad.grad
            if now is before:
                continue
            if now is not None:
                if now.requires_grad:
                    raise NeedsGradients("a gradient is differentiated outside of it")
                if now._storage in self.session.known or type(now) is not Tensor:
                    raise Refused("a gradient is set to a tensor from before the call")
                self.grad_results.add(self._value(now._storage.node)[0])
            grads.append((owner, None if now is None else self._maker(now)))
        return grads, had_grad

    def _maker(self, tensor: Tensor) -> Callable[..., Any]:
        """A function that gives this tensor again: (results, storages, nodes, arguments, made)."""
        for number, argument in enumerate(self.arguments):
            if argument is tensor:
                return lambda results, storages, nodes, arguments, made: arguments[number]
        if any(tensor is other for other in self.snapshot.tensors):
            return lambda *_: tensor
        storage, view = tensor._storage, tensor._view
        place, result, other = self._origin(storage)
        if place is not None and view is None:
            view = _NO_STEPS
        return _Made(
            id(tensor), id(storage), place, result, other, storage.node.shape, storage.node.dtype,
            tensor._shape, () if view is None else view.steps,
            None if view is None else tensor.stride(),
            0 if view in (None, _NO_STEPS) else view.offset, getattr(view, "label", ""),
            tensor.grad_fn.name() if _is_spent(tensor) else "",
        )  # fmt: skip

    def _origin(self, storage: Storage) -> tuple[int | None, int, int]:
        """Where a result's memory comes from: a place of the inputs, a result, another value."""
        if storage in self.session.known:
            place = self.place_of(storage)
            if self.sources.where[place][0] in ("view", "data"):
                raise Refused("it returns a part of a view that it was given")
            return place, -1, -1
        node = storage.node
        if node.leaf in ("const", "scalar"):
            node = settle(storage)
        return (None, *self._value(node))

    def _check_kept(self) -> None:
        """Everything made in the call that is still alive is a result."""
        if self._kept():
            gc.collect()
            if self._kept():
                raise Refused("a tensor made in the call is kept outside of it")

    def _kept(self) -> bool:
        explained = {leaf._storage for leaf in self.leaves if isinstance(leaf, Tensor)}
        for tensor, _ in self.session.grads.values():
            if tensor._grad is not None and tensor._grad.grad is not None:
                explained.add(tensor._grad.grad._storage)
        return any(
            not ref.saved and ref not in self.session.known and ref not in explained
            for ref in live_refs()
        )

    # numbers ------------------------------------------------------------------------------------

    def _numbers(self, recording: Recording) -> tuple[list, list]:
        """Random states used, and numbers that are read again."""
        positions: dict[Any, list[tuple[int, int | None]]] = {g: [] for g in self.session.draws}
        tracked = []
        for position, node in enumerate(recording.scalars):
            origin = node.buffer
            if origin is None:
                continue
            if isinstance(origin, Tracked):
                tracked.append((position, origin.read))
                continue
            generator = origin.__self__
            _, start = self.session.draws[generator]
            step = None if origin.__name__ == "_key" else node.attrs[0] - start
            positions[generator].append((position, step))
        draws = []
        for generator, (seed, start) in self.session.draws.items():
            if generator._seed != seed:
                raise Refused("it changes a random seed")
            draws.append((generator, generator._offset - start, positions[generator]))
        return draws, tracked


class _NoSteps:
    steps: tuple = ()
    label = ""


_NO_STEPS: Any = _NoSteps()


@dataclass(slots=True)
class _Made:
    """Makes one tensor of a replay's result. `place`: of the input whose memory it shares;
    `result`: the program's; `other`: a value that was there. strides None: not a view."""

    identity: int
    key: int
    place: int | None
    result: int
    other: int
    shape: tuple
    dtype: Any
    outer: tuple
    steps: tuple
    strides: Any
    offset: int
    label: str
    spent: str

    def __call__(
        self, results: Any, storages: Any, nodes: Any, arguments: Any, made: dict
    ) -> Tensor:
        found = made.get(self.identity)
        if found is not None:
            return found
        found = made.get(("base", self.key))
        if found is None:
            if self.place is not None:
                found = _sharing(storages[self.place])
            elif self.result >= 0:
                found = new_tensor(buffer_node(results[self.result], self.shape, self.dtype))
            else:
                found = new_tensor(nodes[self.other])
            made["base", self.key] = found
        if self.strides is not None:
            found = make_view(
                found, self.steps, self.outer, self.strides, self.offset, self.label
            )
        if self.spent:
            found._grad = Grad(SpentFn((), ((self.outer, self.dtype),), self.spent))
        made[self.identity] = found
        return found


def _is_spent(tensor: Tensor) -> bool:
    """Its backward ran in the call: a loss that is returned only to be looked at."""
    return tensor.grad_fn is not None and tensor.grad_fn.spent


def _sharing(storage: Storage) -> Tensor:
    """A tensor on memory that is there already."""
    made = new_tensor(storage.node)
    made._storage = made._counter = storage
    return made


def _free_keys(session: Session, snapshot: Snapshot) -> dict[int, set[str]]:
    """Options of optimizers that only the optimizer read, as a tracked number."""
    free: dict[int, set[str]] = {}
    for group, key in session.tracked:
        if not snapshot.is_shared(group):
            free.setdefault(id(group), set()).add(key)
    return free
