"""From a captured call to a `Replay`: every input and every result is explained.

In: a `Session` that is over, the tensors its code can reach, the call's result. Out: the computed
call and its `Replay`. Always true: an input is reached again the way the code reached it (an
argument, a tensor found from its names, a gradient of one of these); what cannot be reached, or
lives on outside without being a result, is refused.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.base.pytree import flatten
from rushlight.engine import realize
from rushlight.engine.capture import Session, settle
from rushlight.engine.checks import SIMPLE
from rushlight.engine.failures import RunFailed, any_failed, mark_failed, raise_failed
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.live import live_refs
from rushlight.engine.program import Program, lines_of_host_calls
from rushlight.engine.realize import (
    find_donated,
    run_program,
    site_text,
    wanted,
)
from rushlight.engine.signature import Recording, record
from rushlight.engine.snapshot import Snapshot
from rushlight.engine.undo import forget_changes
from rushlight.ir.node import Node
from rushlight.tensors.replay import Held, Replay, Sources, TensorGuards
from rushlight.tensors.replay_maker import Maker
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.tracked import Tracked

# Names by which user code could read a learning rate itself.
RATE_NAMES = frozenset(
    "param_groups _last_lr get_last_lr get_lr state_dict defaults __dict__ __getstate__".split()
)
# What it writes is the memory that all views of it see, of which the call got a part.
WRITTEN_VIEW = "argument {} is a view, and the call writes to its memory: pass a clone of it"


class Refused(RuntimeError):
    """Why a call cannot be replayed."""


class NeedsGradients(Refused):
    """The outputs are differentiated outside the call: it stays part of a larger lazy graph."""


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
            for number, tensor in enumerate(self.arguments):
                if tensor._storage is storage:
                    raise Refused(WRITTEN_VIEW.format(number))
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
        check_kept(self._kept)
        draws, tracked = self._numbers(recording)
        try:
            program, values = self._compute(recording, donated)
        except RunFailed as failed:
            mark_failed(recording, failed)
            raise_failed(recording.roots)
            raise failed.error from None
        forget_changes(any_failed())
        return Replay(
            self.snapshot.seal(self.free), self.guards, self._fixed_arguments(), had_grad,
            self.session.tracked, self.session.predicates,
            program, values, program.layout(values), self.sources, len(recording.inputs), donated,
            list(recording.numbers), tracked, draws, updates, grads, outputs,
            [None if isinstance(leaf, Tensor) else leaf for leaf in self.leaves], self.spec,
            self.grad_results, moved_counters(self.session, self.arguments),
            lines_of_host_calls(program, recording),
        )  # fmt: skip

    def _compute(self, recording: Recording, donated: frozenset[int]) -> tuple[Program, np.ndarray]:
        """Find the program and run it; gives it and its sizes. What ends it early, but an error of
        the user's (out of memory, Ctrl-C), leaves all as it was before the call."""
        try:
            program, values = realize.PROGRAMS.find(recording, donated, site_text)
            if program.device != "cpu":
                raise Refused(f"it computes on the device '{program.device}'")
            inputs = [node.buffer for node in recording.inputs]
            with Uninterrupted(bool(donated)):
                buffers = run_program(program, values, inputs, recording.numbers)
                for node, buffer in zip(recording.roots, buffers, strict=True):
                    node.become_leaf(buffer)
                self.session.ran = True
        except (RunFailed, Refused):
            raise
        except BaseException:
            if not self.session.ran:
                self.session.take_back()
            raise
        return program, values

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
        roots, survive, _ = wanted(())
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
            is_part = node in session.views and storage not in self.ways
            if storage is not None and not is_part:  # a view may see all of its memory
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
        updates, counted = [], {tensor._counter for tensor, _ in self.session.counters}
        for ref, before in self.session.known.items():
            if ref.saved or not isinstance(ref, Storage) or ref.node is before:
                continue
            if ref.node.leaf in ("const", "scalar"):
                settle(ref)
            place = self.place_of(ref)
            if self.sources.where[place][0] in ("view", "data"):
                raise Refused("it changes a view that it was given")
            versions = 0 if ref in counted else ref.version - self.session.versions[ref]
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
        """What gives this tensor again (see `Maker`)."""
        for number, argument in enumerate(self.arguments):
            if argument is tensor:
                return lambda results, storages, nodes, arguments, made: arguments[number]
        if any(tensor is other for other in self.snapshot.tensors):
            return lambda *_: tensor
        storage, view = tensor._storage, tensor._view
        shown = None if view is None else (view.steps, tensor._shape, tensor.stride(), view.offset)
        label = "" if view is None else view.label
        place, result, other = -1, -1, -1
        if storage in self.session.known:
            place = self.place_of(storage)
            if self.sources.where[place][0] in ("view", "data"):
                raise Refused("it returns a part of a view that it was given")
            shown = shown or ((), tensor._shape, tensor.stride(), 0)
        else:
            settle(storage)
            result, other = self._value(storage.node)
        node = storage.node
        spent = tensor.grad_fn.name() if _is_spent(tensor) else ""
        return Maker(
            id(tensor), id(storage), place, result, other, node.shape, node.dtype, shown, label,
            spent, storage.version, self._counter(tensor),
        )  # fmt: skip

    def _counter(self, tensor: Tensor) -> Any:
        """For `Maker.counter`."""
        counter = tensor._counter
        if counter is tensor._storage:
            return None
        number = next((i for i, t in enumerate(self.arguments) if t._counter is counter), None)
        there = any(t._counter is counter for t in self.snapshot.tensors)
        return number if number is not None else counter if there else None

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


def check_kept(is_kept: Callable[[], bool]) -> None:
    """Everything made in the call that is still alive is a result. `is_kept`: is something else?"""
    if is_kept():
        gc.collect()
        if is_kept():
            raise Refused("a tensor made in the call is kept outside of it")


def moved_counters(session: Session, arguments: Sequence[Tensor]) -> list[tuple[Any, int]]:
    """Counters of versions, or numbers of arguments that have them, and how far the call moves
    them on."""
    moved = {t._counter: t._counter.version - before for t, before in session.counters}
    numbers = {t._counter: number for number, t in enumerate(arguments)}
    return [(numbers.get(c, c), versions) for c, versions in moved.items() if versions]


def _free_keys(session: Session, snapshot: Snapshot) -> dict[int, set[str]]:
    """Options of optimizers that only the optimizer read, as a tracked number."""
    free: dict[int, set[str]] = {}
    for group, key in session.tracked:
        if not snapshot.is_shared(group):
            free.setdefault(id(group), set()).add(key)
    return free


def _is_spent(tensor: Tensor) -> bool:
    """Its backward ran in the call: a loss that is returned only to be looked at."""
    return tensor.grad_fn is not None and tensor.grad_fn.spent
