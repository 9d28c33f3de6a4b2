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
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from rushlight.autograd.mode import STATE
from rushlight.autograd.node import GradFn
from rushlight.base.config import Value, config
from rushlight.base.devices import device
from rushlight.base.dtypes import DType
from rushlight.base.errors import user_line
from rushlight.base.pytree import flatten
from rushlight.engine.capture import Session, open_session
from rushlight.engine.checks import is_plain
from rushlight.engine.code_watch import Codes, CodeWatch, names_of
from rushlight.engine.guards import Ways, take_snapshot
from rushlight.engine.live import Ref
from rushlight.engine.program import Program, measured
from rushlight.engine.realize import LOCK, PENDING, flush
from rushlight.engine.snapshot import Snapshot
from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.call_arguments import (
    arguments_in_memory,
    changed_arguments,
    changed_attributes,
)
from rushlight.tensors.call_key import Entry, LastCall, aliases, call_mode, describe, last_call
from rushlight.tensors.compile_choices import check_choices, check_region, settings_of
from rushlight.tensors.compile_report import History
from rushlight.tensors.generator import Generator
from rushlight.tensors.loop_turns import call_begins
from rushlight.tensors.replay import AS_CODE, Replay, TensorGuards, forget_values, reclaim
from rushlight.tensors.replay_build import RATE_NAMES, Builder, NeedsGradients, Refused
from rushlight.tensors.replay_graph_build import build
from rushlight.tensors.tensor import LEGACY, Tensor
from rushlight.tensors.user_backend import BackendFunction

MAX_ENTRIES = 8  # replays for one kind of arguments
MAX_KEYS = 64
MAX_REFUSALS = 3  # captures in a row that could not be replayed: no further ones
MEASURED: Mapping[str, Value] = {"max_autotune": True}
EACH_TIME = "what it reads is different in every call"
MAX_CAPTURES = 16  # captures in a row without a replay between them


def compile(  # noqa: A001  (PyTorch's name)
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Make a function, module or whole training step replay as one program.

    Usable as a decorator. `dynamic` is accepted: sizes become symbolic at the second sight
    whatever it says. `backend` is "inductor" or another name
    (`compile_choices.py`), all of which do the same, or a callable that gets each graph and its
    example inputs and gives what is called in its place (`user_backend.py`).

    `mode="max-autotune"` (also "max-autotune-no-cudagraphs", and the options max_autotune and
    max_autotune_gemm) measures schedules of matrix products when it compiles them, once for a
    machine; the result's `tuned` says which. The option max_autotune_gemm_backends names who may
    make products on GPUs. Other modes and options change nothing.

    `name` is what reports call the function. `recompile_limit`: so many captures are kept to be
    replayed; further calls that none of them serves run as ordinary lazy code, with a warning, and
    with `fullgraph` they are an error. `isolate_recompiles` is accepted: what one call of `compile`
    gives never counts for another's. `shapes_spec` (of sizes that are symbolic) must be None or {}.

    RuntimeError: a backend or mode that is not known, mode and options together, an option of
    another type than PyTorch's. TypeError: a name that is no text, a limit that is no whole number.
    NotImplementedError: a specification of shapes. SettingError (a ValueError): a maker that is not
    known.

    >>> import rushlight as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, name=name, disable=disable, recompile_limit=recompile_limit,
            isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec,
        )  # fmt: skip
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile: expected a callable, got {type(model).__name__}")
    check_choices(backend, mode, options)
    check_region(name, recompile_limit, shapes_spec)
    if callable(backend):
        compiled: Any = BackendFunction(model, backend)
    else:
        compiled = CompiledFunction(
            model, fullgraph, settings_of(mode, options), name, recompile_limit
        )
    if hasattr(model, "_parameters") and hasattr(model, "forward"):
        settings = {
            "fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode,
            "options": options, "name": name, "recompile_limit": recompile_limit,
        }  # fmt: skip
        return LEGACY.optimized(model, compiled, settings)
    return functools.update_wrapper(compiled, model, updated=())  # type: ignore[arg-type]


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


class _Kind:
    """What is known about calls with one kind of arguments."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.refusals = self.captures = 0
        self.lazy = False
        self.shown: list[Any] = []  # what the last call was refused for, see Session


class CompiledFunction:
    """What `compile` gives for a function. `captures` and `replays` count calls."""

    def __init__(
        self, fn: Callable[..., Any], fullgraph: bool, settings: Mapping[str, Value],
        name: str | None = None, limit: int | None = None,
    ) -> None:  # fmt: skip
        self._fn = fn
        self._settings = settings
        self._fullgraph = fullgraph
        self._kinds: dict[Any, _Kind] = {}
        self._codes = Codes()
        self._warned: set[str] = set()
        self._last: LastCall | None = None
        self._flushed: WeakSet[Program] = WeakSet()  # by flushes after its calls
        self.captures = self.replays = 0
        self._limit, self._kept = limit, 0
        self.history = History(self, fn, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if open_session() is not None or STATE.pack_hooks or STATE.anomaly:
            return self._fn(*args, **kwargs)
        call_begins(self)
        if self._last is not None and not kwargs:
            result = self._last.run(args)
            if result is AS_CODE:
                return self._fn(*args)
            if result is not NotImplemented:
                self.replays += 1
                return result
        leaves, spec = flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        reclaim(tensors)
        try:
            key = (spec, tuple(map(describe, leaves)), aliases(tensors), call_mode())
            kind = self._kinds.get(key)
        except TypeError:  # unhashable
            return self._fn(*args, **kwargs)
        if kind is None:
            kind = self._kinds[key] = _Kind()
            if len(self._kinds) > MAX_KEYS:
                del self._kinds[next(iter(self._kinds))]
        elif kind.lazy:
            PENDING.ask(self._settings, self._flushed)  # its kernels are made by the next flush
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
                return self._capture_as_asked(key, kind, leaves, spec, tensors, args, kwargs)
        return self._fn(*args, **kwargs)

    def _capture_as_asked(self, key: Any, kind: _Kind, *call: Any) -> Any:
        """Capture a call, as the arguments of `compile` say."""
        _, _, tensors, args, kwargs = call
        if self._limit is not None and self._kept >= self._limit:
            self._say(f"recompile_limit ({self._limit}) captures are kept already")
            return self._fn(*args, **kwargs)
        self.history.begin(key, kind.entries, tensors)
        if not self._settings:
            return self._capture(kind, *call)
        with config.override(**self._settings):
            result = self._capture(kind, *call)
        if any(isinstance(t, Tensor) and not t._value().leaf for t in flatten(result)[0]):
            PENDING.ask(self._settings, self._flushed)  # what waits is compiled later
        return result

    @property
    def tuned(self) -> dict[str, Any]:
        """What was measured for its products, by kernel: a Decision for the schedule taken, with
        what it gains and the time of each candidate as reasons. Where gradients are taken outside
        of its calls, these are the products of the programs that its calls are part of."""
        programs = {
            entry.program: None
            for kind in self._kinds.values()
            for entry in kind.entries
            if isinstance(entry, Replay)
        }
        programs |= dict.fromkeys(self._flushed)
        found = [item for program in programs for item in measured(program)]
        return {f"{label} {number}": decision for number, (label, decision) in enumerate(found)}

    # capturing ----------------------------------------------------------------------------------

    def _capture(
        self, kind: _Kind, leaves: list, spec: Any, tensors: list[Tensor], args: tuple, kwargs: dict
    ) -> Any:
        self.captures += 1
        kind.captures += 1
        objects = tuple(x for x in leaves if not (isinstance(x, Tensor) or is_plain(x)))
        with LOCK:
            flush()
            if kind.shown and all([storage.reclaim() for storage in kind.shown]):
                kind.refusals = 0  # nobody looks at that memory any more
            kind.shown = []
            snapshot = take_snapshot(self._fn, self._codes, objects, _Ways).seal()
            reclaim(snapshot.tensors)
            guards = TensorGuards([*snapshot.tensors, *tensors])
            mode = call_mode()
            session, first = Session(), GradFn((), ()).sequence
            session.counters = [(t, t._counter.version) for t in guards.tensors]
            holders = arguments_in_memory(session, tensors)
            own = [(t, dict(t.__dict__)) for t in guards.tensors]
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
                changed = snapshot.difference() or changed_arguments(leaves, spec, args, kwargs)
                changed = changed or changed_attributes(own, result)
                if not guards.holds() or mode != call_mode():
                    changed = changed or "a tensor's state or a mode"
                if news or changed:
                    self._not_settled(kind, news, changed, result)
                    return result
                guards = TensorGuards(snapshot.tensors)
                try:
                    builder = Builder(session, snapshot, guards, tensors, result, self._may_free())
                    if self._keep(kind, builder.run(), snapshot):
                        self._say(EACH_TIME)
                except NeedsGradients:
                    # The call is whole; its graph is compiled together with its backward's.
                    self._keep_graph(
                        kind, snapshot, (session, snapshot, guards, tensors, result, first)
                    )
            except Refused as error:
                self._refused(kind, session, str(error))
            except MemoryError:
                # Where it ran, the call is whole, and only a replay of it finds no room.
                if not session.ran:
                    if not snapshot.difference():  # else Python state says that it was made
                        session.take_back()
                    raise
        del holders
        return result

    def _refused(self, kind: _Kind, session: Session, why: str) -> None:
        """A call that cannot be replayed."""
        flush()
        kind.shown = session.shown
        kind.refusals += 1
        kind.lazy = kind.refusals >= MAX_REFUSALS
        self.history.lazy(why)
        # What happens once (a cache is filled, numpy looked at memory) is no reason to stop.
        if kind.refusals > 1 or not (self._fullgraph or kind.shown):
            self._say(why)

    def _keep(self, kind: _Kind, entry: Entry, snapshot: Snapshot) -> bool:
        """Keep a replay; True when there were so many that there will be no further ones."""
        kind.entries.insert(0, entry)
        self._kept += 1
        self.history.compiled(entry, snapshot.count + len(snapshot.tensors))
        del kind.entries[MAX_ENTRIES:]
        kind.refusals = 0
        kind.lazy = kind.captures > MAX_CAPTURES
        return kind.lazy

    def _keep_graph(self, kind: _Kind, snapshot: Snapshot, call: tuple) -> None:
        """The same for nodes that wait. Lazy code gives the same, so nobody is warned."""
        try:
            entry = build(*call)
            asked = self._settings or (MEASURED if config.max_autotune else {})
            entry.settings, entry.programs = asked, self._flushed
            why = EACH_TIME if self._keep(kind, entry, snapshot) else ""
        except Refused as refused:
            kind.lazy, why = True, str(refused)
        if why:
            self.history.lazy(f"its outputs need gradients, compiled with the backward pass; {why}")

    def _not_settled(self, kind: _Kind, news: bool, changed: str, result: Any) -> None:
        """The call ran new code or changed Python state: look again at the next one."""
        self.history.seen("" if news else changed)
        waits = any(isinstance(t, Tensor) and t.requires_grad for t in flatten(result)[0])
        if not waits:  # else it may be part of a larger graph
            flush()
        if not news:
            kind.refusals += 1
            if kind.refusals > MAX_REFUSALS:
                kind.lazy = True
            if kind.lazy and not waits:
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
                stacklevel=5,
            )
