"""What a compiled call is known by: the kind of its arguments, and modes; short for the last one.

In: leaves of the arguments, and which of them are tensors. Out: hashable parts of a key. Calls with
equal keys differ in values alone, in memory, and in what their guards look at.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.engine.realize import LOCK
from rushlight.engine.snapshot import SIMPLE
from rushlight.engine.watch import settings_family
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.replay import Replay
from rushlight.tensors.replay_graph import GraphReplay
from rushlight.tensors.tensor import Tensor

Entry = Replay | GraphReplay
_modes = operator.attrgetter("grad", "inference")


def call_mode() -> tuple:
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
        self.modes = call_mode()

    def run(self, args: tuple) -> Any:
        """The result, or NotImplemented when this call may be another one."""
        try:
            fits = (
                list(map(self.read, args)) == self.parts
                and call_mode() == self.modes
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


def describe(leaf: Any) -> Any:
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


def aliases(tensors: Sequence[Tensor]) -> tuple:
    """Which arguments share memory, and which are one object."""
    if len(tensors) < 2:
        return ()
    first: dict[Any, int] = {}
    found = [first.setdefault(t._storage, i) for i, t in enumerate(tensors)]
    return (*found, *[first.setdefault(id(t), i) for i, t in enumerate(tensors)])
