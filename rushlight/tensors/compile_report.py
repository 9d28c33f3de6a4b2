"""What `compile` made of the calls of a function, and why it had to look again.

In: a compiled function or module. Out: one line for each call that was not replayed: it ran to show
its code, was compiled (how many kernels, how many guarded values), or is ordinary lazy code; and
the reason, for a call that was compiled before the guard that failed, with both values. A whole
line: `capture 3: compiled, 1 kernel, 4 guards: SETTING.scale: 2.0 -> 3.0`.

The setting TORCH_LOGS (`torch._logging.set_logs`) prints these lines as they come: `recompiles`
those of what was compiled before, `graph_breaks` those of lazy code, `dynamo` all.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.base.config import config
from rushlight.engine.program import measured
from rushlight.tensors.call_key import Entry, differences
from rushlight.tensors.replay_graph import GraphReplay
from rushlight.tensors.replay_reasons import why_not

# Of everything that was compiled, in this order.
_HISTORIES: list[weakref.ref[History]] = []
MAX_EVENTS = 64  # kept for each function; later ones push out the first


@dataclass(frozen=True)
class Event:
    """kind: "seen", "compiled", "recompiled" or "lazy", as TORCH_LOGS tells them apart; "tuned"
    (before "compiled"): a product whose schedules were measured."""

    capture: int
    kind: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"capture {self.capture}: {self.what}: {self.why}"


class History:
    """The events of one compiled function. `why` is the reason for the capture that runs."""

    def __init__(
        self, owner: Any, function: Callable[..., Any], given_name: str | None = None
    ) -> None:
        self._owner = weakref.ref(owner)  # counts the replays
        self._function, self._given_name = function, given_name
        _HISTORIES.append(weakref.ref(self, _HISTORIES.remove))
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.captures = 0
        self.why = ""
        self._again = False
        self._key: tuple | None = None
        self._programs: weakref.WeakSet = weakref.WeakSet()

    @property
    def name(self) -> str:
        """The function and where it is."""
        function = self._function
        code = getattr(getattr(function, "forward", function), "__code__", None)
        name = self._given_name or getattr(function, "__name__", type(function).__name__)
        return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name

    def begin(self, key: tuple, entries: Sequence[Entry], tensors: Sequence[Any]) -> None:
        """A capture starts. `entries`: those for this kind of arguments, whose guards failed."""
        last = self.events[-1] if self.events else None
        self.captures += 1
        self._again = bool(entries)
        if last is None:
            self.why = "the first call"
        elif entries:
            self.why = "; or ".join(dict.fromkeys(why_not(entry, tensors) for entry in entries))
        elif self._key is not None and self._key != key:
            self.why = "; ".join(differences(self._key, key))
            self._again = any(e.kind in ("compiled", "recompiled") for e in self.events)
        elif last.kind == "seen":
            self.why = "the code it runs was not known before"
        else:
            self.why = f"the call before was {last.what}"
        self._key = key

    def text(self) -> str:
        """The report."""
        replays = getattr(self._owner(), "replays", 0)
        head = f"{self.name}: {self.captures} captures, {replays} replays"
        return "\n".join([head, *(f"  {event}" for event in self.events)])

    def seen(self, changed: str) -> None:
        """The call ran code that was not known, or changed Python values."""
        what = f"ran as lazy code, it changed {changed}" if changed else "ran to see its code"
        self._add("seen", what, self.why)

    def compiled(self, entry: Entry, guards: int) -> None:
        """The call will be replayed, as long as so many guards hold."""
        kind = "recompiled" if self._again else "compiled"
        if isinstance(entry, GraphReplay):
            steps = len(entry.recipe.steps)
            what = f"kept {steps} nodes and their gradient, compiled with the backward pass"
            self._add(kind, f"{what}, {guards} guards", self.why)
            return
        for label, decision in measured(entry.program):
            self._add("tuned", f"{label} is {decision.choice}", decision.reasons[0])
        count = len(entry.program.plan.kernels)
        kernels = f"{count} kernel{'s' * (count != 1)}"
        if entry.program in self._programs:
            kernels += " of a program that was there"
        elif "stored" in entry.program.plan.how:
            kernels += " from disk"
        self._programs.add(entry.program)
        self._add(kind, f"compiled, {kernels}, {guards} guards", self.why)

    def lazy(self, reason: str) -> None:
        """The call is not replayed, for this reason."""
        self._add("lazy", "runs as ordinary lazy code", reason)

    def _add(self, kind: str, what: str, why: str) -> None:
        event = Event(self.captures, kind, what, why)
        self.events.append(event)
        wanted = {word.lstrip("+") for word in config.logs.split(",")}
        if {"recompiled": "recompiles", "lazy": "graph_breaks"}.get(kind) in wanted or (
            "dynamo" in wanted
        ):
            print(f"[compile] {self.name}: {event}", file=sys.stderr)


def compile_report(compiled: Any = None) -> str:
    """What `compile` made of a function's or module's calls, and why, as text: a line with the
    number of captures and replays, then one for each of the last 64 calls that were not replayed.
    Without an argument, that of everything that was compiled, was called and is still there.

    TypeError for what `compile` did not make.

    >>> import rushlight as torch
    >>> f = torch.compile(lambda x: x * 2)
    >>> for size in (2, 2, 2, 2, 3):
    ...     _ = f(torch.ones(size))
    >>> "argument 0: shape (2,) -> (3,)" in torch.compile_report(f)
    True
    """
    if compiled is None:
        histories = [ref() for ref in list(_HISTORIES)]
        parts = [h.text() for h in histories if h is not None and h.captures]
        return "\n".join(parts) or "nothing was compiled"
    function = getattr(compiled, "__dict__", {}).get("_compiled", compiled)
    history = getattr(function, "history", None)
    if not isinstance(history, History):
        raise TypeError(
            "compile_report: argument 'compiled' must be what compile gives for a function or "
            f"module, got {type(compiled).__name__}"
        )
    return history.text()
