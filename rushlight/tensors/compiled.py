"""`compile`: capture a call by running it, then replay it as one native program.

The first call runs the function as lazy code with flush points held back, so that all it records
(forward, loss, backward, optimizer) is one graph. The call can be replayed when every input of the
graph is an argument or a tensor that existed before, every value that outlives the call is an
output, a gradient or such a tensor, and the Python values the code reads can be guarded. A replay
checks the guards, runs the program and puts the results in place; it records nothing.

What cannot be replayed runs as ordinary lazy code, with one warning that says why
(`fullgraph=True`: an error). Never a wrong replay. A call whose outputs are differentiated outside
of it is such a call, without a warning: its graph is compiled together with the backward's.
"""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.autograd.mode import STATE
from rushlight.base.errors import user_line
from rushlight.base.pytree import flatten, unflatten
from rushlight.engine.capture import Session, open_session
from rushlight.engine.guards import SIMPLE, Check, Snapshot, take_snapshot
from rushlight.engine.live import Ref, live_refs
from rushlight.engine.programs import Program
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.realize import (
    LOCK,
    PROGRAMS,
    find_donated,
    flush,
    run_program,
    site_text,
    wanted,
)
from rushlight.engine.signature import Recording, record
from rushlight.ir.node import Node, buffer_node
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Tensor, new_tensor

MAX_ENTRIES = 8


class Refused(RuntimeError):
    """Why a call cannot be replayed."""


class NeedsGradients(Refused):
    """The outputs are differentiated outside the call: it stays part of a larger lazy graph."""


def compile(  # noqa: A001  (PyTorch's name)
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Make a function, module or whole training step replay as one program.

    Usable as a decorator. `dynamic`, `mode`, `options` are accepted: sizes become symbolic at the
    second sight whatever `dynamic` says.

    >>> import rushlight as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile: expected a callable, got {type(model).__name__}")
    compiled = CompiledFunction(model, fullgraph)
    if hasattr(model, "_parameters") and hasattr(model, "forward"):
        return _CompiledModule.wrap(model, compiled)
    return functools.update_wrapper(compiled, model, updated=())  # type: ignore[arg-type]


class _CompiledModule:
    """A module whose `__call__` is compiled: everything else is the module's."""

    @staticmethod
    def wrap(model: Any, compiled: CompiledFunction) -> Any:
        kind = type(model)
        subclass = type(
            kind.__name__, (kind,), {"__call__": lambda self, *a, **k: compiled(*a, **k)}
        )
        subclass.__module__, subclass.__qualname__ = kind.__module__, kind.__qualname__
        optimized = object.__new__(subclass)
        optimized.__dict__ = model.__dict__
        return optimized


@dataclass(frozen=True)
class _Source:
    """Where the memory of a program input comes from."""

    ref: Storage | None = None
    argument: int = -1
    grad_of: Any = None  # weakref to a tensor whose .grad is read

    def storage(self, tensors: Sequence[Tensor]) -> Storage | None:
        if self.ref is not None:
            return self.ref
        if self.argument >= 0:
            return tensors[self.argument]._storage
        owner = self.grad_of()
        return None if owner is None or owner.grad is None else owner.grad._storage


@dataclass(eq=False)
class _Replay:
    """Everything a replay needs; see the module docstring."""

    snapshot: Snapshot
    program: Program
    values: np.ndarray
    sources: list[_Source]
    numbers: list[Any]
    origins: list[tuple[int, Callable[[], Any]]]
    bindings: list[tuple[int, Check]]
    updates: list[tuple[int, weakref.ref[Storage]]]
    grads: list[tuple[int, Any]]
    outputs: list[tuple[int, bool]]
    fixed: list[Any]
    spec: Any
    donated: frozenset[int]
    grad_guards: list[tuple[Any, bool]]

    def is_valid(self) -> bool:
        for weak, had_grad in self.grad_guards:
            tensor = weak()
            if tensor is None or (tensor.grad is not None) is not had_grad:
                return False
        return self.snapshot.holds()

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The result of the call, or NotImplemented when memory is not as it was captured."""
        buffers = []
        for position, source in enumerate(self.sources):
            storage = source.storage(tensors)
            if storage is None or storage.foreign is not None and position in self.donated:
                return NotImplemented
            if storage.node.leaf != "buffer":
                flush((storage.node,))
            buffers.append(storage.node.buffer)
        if len(set(map(id, buffers))) != len(buffers) and self.donated:
            return NotImplemented
        if any(buffers[i].foreign or sys.getrefcount(buffers[i]) > 3 for i in self.donated):
            return NotImplemented
        numbers = self.numbers
        for position, origin in self.origins:
            numbers[position] = origin()
        for position, check in self.bindings:
            numbers[position] = check.read()
        with Uninterrupted(bool(self.donated)):
            results = run_program(self.program, self.values, buffers, numbers)
            del buffers
            return self._place(results)

    def _place(self, results: list[Any]) -> Any:
        for position, weak in self.updates:
            storage = weak()
            if storage is not None:
                old = storage.node
                storage.node = buffer_node(results[position], old.shape, old.dtype)
                storage.version += 1
        for position, (weak, shape, dtype) in self.grads:
            tensor = weak()
            if tensor is not None:
                tensor.grad = new_tensor(buffer_node(results[position], shape, dtype))
        leaves = list(self.fixed)
        for position, (slot, shape, dtype) in self.outputs:  # type: ignore[misc]
            leaves[slot] = new_tensor(buffer_node(results[position], shape, dtype))
        return unflatten(self.spec, leaves)


class CompiledFunction:
    """What `compile` gives for a function. `captures` and `replays` count calls."""

    def __init__(self, fn: Callable[..., Any], fullgraph: bool) -> None:
        self._fn = fn
        self._fullgraph = fullgraph
        self._entries: dict[Any, list[_Replay]] = {}
        self._warned: set[str] = set()
        self._last: dict[Any, tuple[Snapshot, Recording]] = {}
        self._lazy: set[Any] = set()
        self.captures = self.replays = 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if open_session() is not None:
            return self._fn(*args, **kwargs)
        leaves, spec = flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        key = (spec, tuple(_describe(leaf) for leaf in leaves), STATE.grad, STATE.inference)
        try:
            entries = self._entries.get(key, ())
            if key in self._lazy:
                return self._fn(*args, **kwargs)
        except TypeError:
            entries, key = (), None
        for entry in entries:
            if entry.is_valid():
                with LOCK:
                    result = entry.run(tensors)
                if result is not NotImplemented:
                    self.replays += 1
                    return result
        return self._capture(key, tensors, args, kwargs)

    # capturing ----------------------------------------------------------------------------------

    def _capture(self, key: Any, tensors: list[Tensor], args: tuple, kwargs: dict) -> Any:
        self.captures += 1
        flush()
        before = take_snapshot(self._fn, _is_tensor)
        with LOCK, Session() as session:
            if key is None:
                session.refuse("an argument is not hashable")
            result = self._fn(*args, **kwargs)
        with LOCK:
            try:
                if before.unguardable:
                    raise Refused(before.unguardable)
                if session.refusal:
                    raise Refused(session.refusal)
                entry = self._finish(session, before, tensors, result, key)
            except NeedsGradients as error:
                self._lazy.add(key)
                if self._fullgraph:
                    self._say(str(error))
            except Refused as error:
                flush()
                self._say(str(error))
            else:
                if entry is not None:
                    kept = self._entries.setdefault(key, [])
                    kept.insert(0, entry)
                    del kept[MAX_ENTRIES:]
        return result

    def _say(self, reason: str) -> None:
        where = user_line()
        if self._fullgraph:
            raise RuntimeError(f"compile(fullgraph=True): the call cannot be replayed: {reason}")
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(
                f"compile: {getattr(self._fn, '__name__', 'the call')} at {where} runs as ordinary "
                f"lazy code: {reason}",
                stacklevel=4,
            )

    def _finish(
        self, session: Session, before: Snapshot, tensors: list[Tensor], result: Any, key: Any
    ) -> _Replay | None:
        """Compute what was captured; a replay when the state has settled, else None."""
        leaves, spec = flatten(result)
        outputs = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(ref.saved and ref not in session.known for ref in live_refs()):
            raise NeedsGradients("its outputs need gradients (backward must be inside the call)")
        roots, kept = wanted(())
        for tensor in outputs:
            if tensor._view is not None:
                raise Refused("an output is a view")
        if not roots:
            raise Refused("it computes nothing")
        recording = record(roots)
        donated = find_donated(recording, kept)
        sources = _sources(session, recording, tensors)
        placing = _placing(session, recording, outputs, leaves)
        program, values = PROGRAMS.find(recording, donated, site_text)
        with Uninterrupted(bool(donated)):
            buffers = run_program(
                program, values, [node.buffer for node in recording.inputs], recording.numbers
            )
            for node, buffer in zip(recording.roots, buffers, strict=True):
                node.become_leaf(buffer)
        if before.changed():
            return None  # the call changed Python state (an optimizer's first step): look again
        bindings = self._bind_numbers(key, before, recording)
        origins = sorted(
            ((node.attrs[0], i, node.buffer) for i, node in enumerate(recording.scalars)
             if node.buffer is not None),
            key=lambda item: item[:2],
        )  # fmt: skip
        fixed = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        return _Replay(
            before, program, values, sources, list(recording.numbers),
            [(i, origin) for _, i, origin in origins], bindings, placing.updates, placing.grads,
            placing.outputs, fixed, spec, donated, placing.grad_guards,
        )

    def _bind_numbers(
        self, key: Any, snapshot: Snapshot, recording: Recording
    ) -> list[tuple[int, Check]]:
        """Numbers that followed a guarded float when it changed are read from it at replay."""
        last = self._last.get(key)
        self._last[key] = (snapshot, recording)
        if last is None or last[1].key != recording.key:
            return []
        old_checks = {check.name: check for check in last[0].checks}
        bindings: list[tuple[int, Check]] = []
        bound: set[int] = set()
        for position, (old, new) in enumerate(
            zip(last[1].numbers, recording.numbers, strict=True)
        ):
            if recording.scalars[position].buffer is not None or old == new:
                continue
            for check in snapshot.checks:
                previous = old_checks.get(check.name)
                if (
                    previous is not None
                    and isinstance(check.value, float)
                    and (previous.value, check.value) == (old, new)
                ):
                    bindings.append((position, check))
                    bound.add(id(check))
                    break
            else:
                return []
        snapshot.checks = [check for check in snapshot.checks if id(check) not in bound]
        return bindings


def _describe(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        plain = leaf._view is None
        return (leaf._shape, leaf._dtype.name, leaf.requires_grad, plain or leaf.stride())
    if isinstance(leaf, SIMPLE):
        return (leaf.__class__.__name__, leaf)
    return (id(type(leaf)), id(leaf))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, Node, Ref))


def _sources(
    session: Session, recording: Recording, tensors: Sequence[Tensor]
) -> list[_Source]:
    arguments = {id(t._storage): i for i, t in enumerate(tensors)}
    old_grads = {id(storage): weak for weak, storage in session.grads_read}
    sources = []
    for node in recording.inputs:
        ref = session.held.get(node)
        if not isinstance(ref, Storage):
            raise Refused("it makes a tensor from Python data or reads foreign memory")
        if id(ref) in arguments:
            sources.append(_Source(argument=arguments[id(ref)]))
        elif id(ref) in old_grads:
            sources.append(_Source(grad_of=old_grads[id(ref)]))
        else:
            sources.append(_Source(ref=ref))
    return sources


@dataclass
class _Placing:
    updates: list[Any]
    grads: list[Any]
    outputs: list[Any]
    grad_guards: list[Any]


def _placing(
    session: Session, recording: Recording, outputs: Sequence[Tensor], leaves: Sequence[Any]
) -> _Placing:
    """Which storages get which result."""
    position = {node: i for i, node in enumerate(recording.roots)}
    placing = _Placing([], [], [], [])
    of_output = {id(t._storage): t for t in outputs}
    of_grad = {}
    for weak in session.grads_written.values():
        tensor = weak()
        if tensor is not None and tensor.grad is not None:
            of_grad[id(tensor.grad._storage)] = weak
    for ref in live_refs():
        if ref.saved or not isinstance(ref, Storage) or ref.node not in position:
            continue
        number = position[ref.node]
        if id(ref) in of_grad and ref not in session.known:
            grad = of_grad[id(ref)]
            placing.grads.append((number, (grad, ref.node.shape, ref.node.dtype)))
        elif ref in session.known:
            placing.updates.append((number, weakref.ref(ref)))
        elif id(ref) not in of_output:
            raise Refused("a tensor made in the call is kept outside of it")
    for slot, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            if not isinstance(leaf, SIMPLE):
                raise Refused(f"it returns a {type(leaf).__name__}")
            continue
        node = leaf._storage.node
        if node not in position:
            raise Refused("it returns a tensor that was there before the call")
        placing.outputs.append((position[node], (slot, node.shape, node.dtype)))
    placing.grad_guards = [(weak, had) for weak, had in session.grad_guards.values()]
    return placing
