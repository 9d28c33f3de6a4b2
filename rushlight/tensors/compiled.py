"""`compile`: capture a call by running it, then replay it as one native program.

The first call runs the function as ordinary lazy code and notes which code ran. A later call runs
with flush points held back, so that all it records (forward, loss, backward, optimizer) is one
graph; when the Python values its code reads are guarded and were left as they were, and every
input and result is explained, the call can be replayed (`replay.py`). A replay checks the guards,
runs the program and puts the results in place; it records nothing.

What cannot be replayed runs as ordinary lazy code, with one warning that says why
(`fullgraph=True`: an error). Never a wrong replay. A call whose outputs are differentiated outside
of it is made again as nodes that wait and one gradient function (`replay_graph.py`), or is ordinary
lazy code without a warning: in both ways it is compiled together with its backward pass.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.autograd.node import GradFn
from rushlight.base.devices import device
from rushlight.base.dtypes import DType
from rushlight.base.errors import user_line
from rushlight.base.pytree import flatten
from rushlight.engine.capture import Session, open_session
from rushlight.engine.code_watch import Codes, CodeWatch, names_of
from rushlight.engine.guards import Ways, take_snapshot
from rushlight.engine.live import Ref
from rushlight.engine.realize import LOCK, flush
from rushlight.engine.snapshot import SIMPLE, Snapshot
from rushlight.engine.watch import settings_family
from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.compile_report import History
from rushlight.tensors.generator import Generator
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.replay import AS_CODE, Replay, TensorGuards, forget_values
from rushlight.tensors.replay_build import RATE_NAMES, Builder, NeedsGradients, Refused
from rushlight.tensors.replay_graph import GraphReplay, build
from rushlight.tensors.tensor import LEGACY, Tensor
from rushlight.tensors.user_backend import BackendFunction

# PyTorch's names for "compile it" and "only run it"; all are this compiler, which gives the same.
BACKENDS = ("rushlight", "inductor", "eager", "aot_eager")
# PyTorch's names for how long to search; the search here is the same for all.
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
MAX_ENTRIES = 8  # replays for one kind of arguments
MAX_KEYS = 64
MAX_REFUSALS = 3  # captures in a row that could not be replayed: no further ones
MAX_CAPTURES = 16  # captures in a row without a replay between them


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
    second sight whatever `dynamic` says. `backend` is a name of BACKENDS, or a callable that gets
    each graph and its example inputs and gives what is called in its place (`user_backend.py`).

    >>> import rushlight as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile: expected a callable, got {type(model).__name__}")
    _check_choices(backend, mode, options)
    if callable(backend):
        compiled: Any = BackendFunction(model, backend)
    else:
        compiled = CompiledFunction(model, fullgraph)
    if hasattr(model, "_parameters") and hasattr(model, "forward"):
        settings = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode,
                    "options": options}  # fmt: skip
        return LEGACY.optimized(model, compiled, settings)
    return functools.update_wrapper(compiled, model, updated=())  # type: ignore[arg-type]


def _check_choices(backend: Any, mode: str | None, options: Any) -> None:
    if isinstance(backend, str) and backend not in BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}; known are {', '.join(BACKENDS)}")
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if backend in (None, "rushlight", "inductor") and mode not in (None, *MODES):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")


class _Ways(Ways):
    @staticmethod
    def is_tensor(value: Any) -> bool:
        return isinstance(value, Tensor)

    @staticmethod
    def parts(value: Any) -> Any:
        meta = value._grad
        if meta is None:
            return ()
        return [*(meta.hooks or {}).values(), *(meta.post_hooks or {}).values()]

    @staticmethod
    def is_opaque(value: Any) -> bool:
        return isinstance(value, (Node, Ref, Generator, DType, device, OpDef))

    @staticmethod
    def unwrap(value: Any) -> Any:
        return value._fn if isinstance(value, CompiledFunction) else value


Entry = Replay | GraphReplay


class _Kind:
    """What is known about calls with one kind of arguments."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.refusals = self.captures = 0
        self.lazy = False


_modes = operator.attrgetter("grad", "inference")


def _mode() -> tuple:
    """What a call depends on beside its arguments and what its code reads."""
    return (*_modes(STATE), Defaults.dtype, AUTOCAST.dtype, settings_family())


_storage = operator.attrgetter("_storage")


class LastCall:
    """The way of the last call, for the next one: only tensors, plain ones, that share no memory.
    Then nothing is taken apart and no key is made."""

    def __init__(self, entry: Entry, args: tuple) -> None:
        self.entry = entry
        self.read = entry.argument_parts
        self.parts = list(map(self.read, args))
        self.modes = _mode()

    def run(self, args: tuple) -> Any:
        """The result, or NotImplemented when this call may be another one."""
        try:
            fits = (
                list(map(self.read, args)) == self.parts
                and _mode() == self.modes
                and (len(args) < 2 or len(set(map(_storage, args))) == len(args))
            )
        except (AttributeError, ValueError):  # no tensor; memory of others, compared by elements
            return NotImplemented
        if not fits:
            return NotImplemented
        with LOCK:
            entry = self.entry
            return entry.run(args) if entry.holds(args) else NotImplemented


def last_call(entry: Entry, args: tuple, kwargs: dict) -> LastCall | None:
    """None where the arguments are not such as `LastCall` wants them."""
    shared = isinstance(entry, GraphReplay)  # does it read memory of others as it is?
    plain = not kwargs and all(
        type(a) is Tensor and a._view is None and a._grad is None
        and (shared or a._storage.foreign is None)
        for a in args
    )  # fmt: skip
    if not plain or len(set(map(_storage, args))) != len(args):
        return None
    return LastCall(entry, args)


class CompiledFunction:
    """What `compile` gives for a function. `captures` and `replays` count calls."""

    def __init__(self, fn: Callable[..., Any], fullgraph: bool) -> None:
        self._fn = fn
        self._fullgraph = fullgraph
        self._kinds: dict[Any, _Kind] = {}
        self._codes = Codes()
        self._warned: set[str] = set()
        self._last: LastCall | None = None
        self.captures = self.replays = 0
        self.history = History(fn)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if open_session() is not None or STATE.pack_hooks or STATE.anomaly:
            return self._fn(*args, **kwargs)
        if self._last is not None and not kwargs:
            result = self._last.run(args)
            if result is AS_CODE:
                return self._fn(*args)
            if result is not NotImplemented:
                self.replays += 1
                return result
        leaves, spec = flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        try:
            key = (spec, tuple(map(_describe, leaves)), _aliases(tensors), _mode())
            kind = self._kinds.get(key)
        except TypeError:  # unhashable
            return self._fn(*args, **kwargs)
        if kind is None:
            kind = self._kinds[key] = _Kind()
            if len(self._kinds) > MAX_KEYS:
                del self._kinds[next(iter(self._kinds))]
        elif kind.lazy:
            return self._fn(*args, **kwargs)
        with LOCK:
            for entry in kind.entries:
                result = entry.run(tensors) if entry.holds(tensors) else NotImplemented
                if result is AS_CODE:
                    break
                if result is not NotImplemented:
                    self.replays += 1
                    kind.captures = 0
                    self._last = last_call(entry, args, kwargs)
                    return result
            else:
                self.history.begin(key, kind.entries, tensors)
                return self._capture(kind, leaves, spec, tensors, args, kwargs)
        return self._fn(*args, **kwargs)

    # capturing ----------------------------------------------------------------------------------

    def _capture(
        self, kind: _Kind, leaves: list, spec: Any, tensors: list[Tensor], args: tuple, kwargs: dict
    ) -> Any:
        self.captures += 1
        kind.captures += 1
        objects = tuple(x for x in leaves if not isinstance(x, (Tensor, *SIMPLE)))
        with LOCK:
            flush()
            snapshot = take_snapshot(self._fn, self._codes, objects, _Ways).seal()
            guards = TensorGuards([*snapshot.tensors, *tensors])
            mode = _mode()
            session, first = Session(), GradFn((), ()).sequence
            holders = _arguments_in_memory(session, tensors)
            try:
                with session, CodeWatch() as watch:
                    result = self._fn(*args, **kwargs)
            finally:
                forget_values(tensors)
            try:
                news = self._codes.add(watch.codes)
                reason = session.refusal or watch.refusal or snapshot.unguardable
                if reason:
                    raise Refused(reason)
                changed = snapshot.difference() or _changed_arguments(leaves, spec, args, kwargs)
                if not guards.holds() or mode != _mode():
                    changed = changed or "a tensor's state or a mode"
                if news or changed:
                    self._not_settled(kind, news, changed, result)
                    return result
                guards = TensorGuards(snapshot.tensors)
                try:
                    builder = Builder(session, snapshot, guards, tensors, result, self._may_free())
                    self._keep(kind, builder.run(), snapshot)
                except NeedsGradients:
                    # The call is whole; its graph is compiled together with its backward's.
                    self._keep_graph(
                        kind, snapshot, (session, snapshot, guards, tensors, result, first)
                    )
            except Refused as error:
                flush()
                kind.refusals += 1
                kind.lazy = kind.refusals >= MAX_REFUSALS
                self.history.lazy(str(error))
                # What happens once (a cache is filled) is no reason to stop a program.
                if kind.refusals > 1 or not self._fullgraph:
                    self._say(str(error))
        del holders
        return result

    def _keep(self, kind: _Kind, entry: Entry, snapshot: Snapshot) -> None:
        kind.entries.insert(0, entry)
        self.history.compiled(entry, snapshot.count + len(snapshot.tensors))
        del kind.entries[MAX_ENTRIES:]
        kind.refusals = 0
        if kind.captures > MAX_CAPTURES:
            kind.lazy = True
            self._say("what it reads is different in every call")

    def _keep_graph(self, kind: _Kind, snapshot: Snapshot, call: tuple) -> None:
        try:
            self._keep(kind, build(*call), snapshot)
        except Refused as why:
            kind.lazy = True
            self.history.lazy(f"its outputs need gradients, compiled with the backward pass; {why}")

    def _not_settled(self, kind: _Kind, news: bool, changed: str, result: Any) -> None:
        """The call ran new code or changed Python state: look again at the next one."""
        self.history.seen("" if news else changed)
        if any(isinstance(t, Tensor) and t.requires_grad for t in flatten(result)[0]):
            return  # no flush: it may be part of a larger graph
        flush()
        if not news:
            kind.refusals += 1
            if kind.refusals > MAX_REFUSALS:
                kind.lazy = True
                self._say(f"it changes {changed} in every call")

    def _may_free(self) -> bool:
        """Does user code leave the options of optimizers alone?"""
        named = (names_of(code).attributes for code, _ in self._codes.user())
        return not self._codes.by_name and all(map(RATE_NAMES.isdisjoint, named))

    def _say(self, reason: str) -> None:
        if self._fullgraph:
            raise RuntimeError(f"compile(fullgraph=True): the call cannot be replayed: {reason}")
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(
                f"compile: {getattr(self._fn, '__name__', 'the call')} at {user_line()} runs as "
                f"ordinary lazy code: {reason}",
                stacklevel=4,
            )


def _arguments_in_memory(session: Session, tensors: Sequence[Tensor]) -> list[Ref]:
    """Views, and foreign memory, are given to the program as the values they have now.

    Gives holders of these values, so that no flush reuses their memory while the call runs.
    """
    holders = []
    for number, tensor in enumerate(tensors):
        foreign = tensor._storage.foreign is not None
        if tensor._view is None and not foreign:
            continue
        node = tensor._value()
        flush((node,))
        holders.append(Ref(node))
        session.known[holders[-1]] = node
        session.views[node] = number
        if foreign and tensor._view is None:
            session.foreign[tensor._storage] = node
    return holders


def _describe(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        view = leaf._view
        if view is None and leaf._storage.foreign is None:
            return (leaf._shape, leaf._dtype, leaf.requires_grad, type(leaf))
        return (
            leaf._shape,
            leaf._dtype,
            leaf.requires_grad,
            type(leaf),
            leaf.stride(),
            view is None,
        )
    if isinstance(leaf, SIMPLE):
        return (leaf.__class__, leaf, str(leaf) if leaf.__class__ is float else None)
    return (type(leaf), id(leaf))


def _aliases(tensors: Sequence[Tensor]) -> tuple:
    """Which arguments share memory, and which are one object."""
    if len(tensors) < 2:
        return ()
    first: dict[Any, int] = {}
    found = [first.setdefault(t._storage, i) for i, t in enumerate(tensors)]
    return (*found, *[first.setdefault(id(t), i) for i, t in enumerate(tensors)])


def _changed_arguments(leaves: list, spec: Any, args: tuple, kwargs: dict) -> str:
    """Did the call change a list or dict that it was given?"""
    now, shape = flatten((args, kwargs))
    same = shape == spec and all(a is b for a, b in zip(now, leaves, strict=True))
    return "" if same else "a container that it was given"
