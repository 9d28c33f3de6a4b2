"""What a compiled call is known by: the kind of its arguments, and modes; short for the last one.

In: leaves of the arguments, and which of them are tensors. Out: hashable parts of a key (structure,
leaves, aliases, modes), and in words how two keys differ. Calls with equal keys differ in values
alone, in memory, and in what their guards look at.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.base.devices import CURRENT
from rushlight.engine.checks import is_plain
from rushlight.engine.realize import LOCK
from rushlight.engine.watch import settings_family
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.replay import Replay
from rushlight.tensors.replay_graph import GraphReplay
from rushlight.tensors.tensor import Tensor

Entry = Replay | GraphReplay
_modes = operator.attrgetter("grad", "inference")


_MODES = ("grad mode", "inference mode", "default dtype", "autocast", "a setting of kernels",
          "default device")  # fmt: skip


def call_mode() -> tuple:
    """What a call depends on beside its arguments and what its code reads: _MODES."""
    own = Defaults.dtype, AUTOCAST.dtype, settings_family(), CURRENT.stack[-1]
    return (*_modes(STATE), *own)


_storage = operator.attrgetter("_storage")
# Attributes that a program gave a tensor: its code may ask for them.
_own = operator.attrgetter("__dict__")


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
                and not any(map(_own, args))
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
        and (shared or a._storage.foreign is None) and not a.__dict__
        for a in args
    )  # fmt: skip
    if not plain or len(set(map(_storage, args))) != len(args):
        return None
    return LastCall(entry, args)


_TENSOR_PARTS = ("shape", "dtype", "requires_grad", "class", "attributes", "strides",
                 "memory of another library")  # fmt: skip


def describe(leaf: Any) -> Any:
    """Of a tensor _TENSOR_PARTS, of a number or text its value, else which object it is.

    TypeError: a tensor has attributes that are more than numbers and texts.
    """
    if isinstance(leaf, Tensor):
        own = tuple((name, *_value(value)) for name, value in leaf.__dict__.items())
        view = leaf._view
        if view is None and leaf._storage.foreign is None:
            return (leaf._shape, leaf._dtype, leaf.requires_grad, type(leaf), own)
        return (
            leaf._shape,
            leaf._dtype,
            leaf.requires_grad,
            type(leaf),
            own,
            leaf.stride(),
            view is None,
        )
    if is_plain(leaf):
        return _value(leaf)
    return (type(leaf), id(leaf))


_SIGNED = (float, complex)  # they have zeros that are equal, but not the same


def _value(value: Any) -> tuple:
    """Of a number or text: equal ones of one class are the same."""
    if not is_plain(value):
        raise TypeError(f"a tensor has an attribute of class {type(value).__name__}")
    return (value.__class__, value, str(value) if value.__class__ in _SIGNED else None)


def aliases(tensors: Sequence[Tensor]) -> tuple:
    """Which arguments share memory, and which are one object."""
    if len(tensors) < 2:
        return ()
    first: dict[Any, int] = {}
    found = [first.setdefault(t._storage, i) for i, t in enumerate(tensors)]
    return (*found, *[first.setdefault(id(t), i) for i, t in enumerate(tensors)])


def differences(before: tuple, now: tuple) -> list[str]:
    """How the keys of two calls differ: words for each part."""
    if before[0] != now[0] or len(before[1]) != len(now[1]):
        return ["the arguments have another structure"]
    found = [
        f"argument {number}: {_leaf_difference(old, new)}"
        for number, (old, new) in enumerate(zip(before[1], now[1], strict=True))
        if old != new
    ]
    if before[2] != now[2] and not found:
        found.append("other arguments share memory")
    pairs = zip(_MODES, before[3], now[3], strict=True)
    return found + [f"{name}: {old} -> {new}" for name, old, new in pairs if old != new]


def _leaf_difference(old: tuple, new: tuple) -> str:
    if len(old) == len(new) == 3:  # numbers and texts: class, value, text of a float
        return f"{old[1]!r} -> {new[1]!r}"
    if len(old) < 4 or len(new) < 4:
        return "another object" if len(old) == len(new) else "a tensor or not"
    pairs = zip(_TENSOR_PARTS, old, new, strict=False)
    parts = [f"{name} {_shown(a)} -> {_shown(b)}" for name, a, b in pairs if a != b]
    return ", ".join(parts) or "a view or not"


def _shown(part: Any) -> str:
    return part.__name__ if isinstance(part, type) else str(part)
