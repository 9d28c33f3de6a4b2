"""Capturing a call: flush points are held back, so that all of it becomes one program.

While a `Session` is open in a thread, a flush point there does nothing, and what cannot be
repeated by a program (a value needed in the middle) is noted: such a call cannot be replayed.
Always true while one is open: every value in memory that a tensor held at the start is a leaf of
its own, so the graph says which tensor was read.
"""

from __future__ import annotations

import threading
from typing import Any

from rushlight.base.dtypes import bool_
from rushlight.base.errors import user_line
from rushlight.compiler import CAPTURE
from rushlight.engine.live import Ref, live_refs
from rushlight.ir.node import Node, buffer_node
from rushlight.runtime.buffer import allocate


class _Open(threading.local):
    session: Session | None = None


_OPEN = _Open()


class Session:
    """One call being captured.

    held     value leaf at the start -> the Ref that held it
    known    every Ref alive at the start (kept alive) -> its leaf then
    views    value of an argument that is a view, or foreign memory -> number of the argument
    foreign  storage of foreign memory that an argument sees whole -> its value at the start
    parts    storage that an argument sees a part of -> (its value at the start, the steps to the
             part, the value of the part, which is in `views`)
    counters (tensor that the code can reach, its version at the start)
    indices  (tensor, what is asked of it): indices that a call without capture would look at
    start    serial of the last node before the call
    grads    id -> (tensor, its .grad before the call first looked at it or changed it)
    draws    random generators that were used -> (seed, offset) before
    private  leaves that may not be read by a replay (what a random state was)
    shown    storages it read whose memory others look at; the call may be replayed when none does
    ran      its program did: what it overwrote is not there any more
    refusal  why the call cannot be replayed ("" while it can)
    """

    def __init__(self) -> None:
        self.views: dict[Node, int] = {}
        self.versions: dict[Ref, int] = {}
        self.start = 0
        self.held: dict[Node, Ref] = {}
        self.known: dict[Ref, Node] = {}
        self.refusal = ""
        self.grads: dict[int, tuple[Any, Any]] = {}
        self.draws: dict[Any, tuple[int, int]] = {}
        self.private: set[Node] = set()
        self.token = object()
        self.tracked: list[tuple[dict, str]] = []
        self.predicates: list[tuple[Any, bool]] = []
        self.foreign: dict[Any, Node] = {}
        self.parts: dict[Any, list[tuple[Node, tuple, Node]]] = {}
        self.counters: list[tuple[Any, int]] = []
        self.indices: list[tuple[Any, ...]] = []
        self.shown: list[Any] = []
        self.ran = False
        self._look_around()

    def of_all_examples(self, node: Node) -> tuple[Node, Session | None] | None:
        """In a vmapped call: the value for all examples, and the session outside of the call."""
        return None

    def note_grad(self, tensor: Any, grad: Any) -> None:
        """`tensor.grad`, which is `grad` now, is about to be read or changed."""
        self.grads.setdefault(id(tensor), (tensor, grad))

    def note_index(self, storage: Any, *check: Any) -> bool:
        """Indices are about to be used (index_checks.py); False: they stand for others (vmap)."""
        if storage in self.known:
            self.indices.append(check)
        return True

    def start_of(self, storage: Any, steps: tuple) -> tuple[Node, tuple] | None:
        """Where the value of a view comes from: that of an argument which is a view itself, and
        the steps from there on. So a replay need not know at which place of the memory it is."""
        found = [
            (node, steps[len(head) :])
            for before, head, node in self.parts.get(storage, ())
            if storage.node is before and steps[: len(head)] == head
        ]
        return min(found, key=lambda way: len(way[1]), default=None)

    def note_draw(self, generator: Any, seed: int, offset: int) -> None:
        """A generator is about to be used or moved."""
        self.draws.setdefault(generator, (seed, offset))

    def _look_around(self) -> None:
        refs = live_refs()
        taken = {ref.node for ref in refs if ref.saved}
        for ref in refs:
            node = ref.node
            if not ref.saved:
                if node.leaf in ("const", "scalar"):
                    node = settle(ref)
                elif node.leaf == "buffer" and node in taken:
                    node = buffer_node(node.buffer, node.shape, node.dtype)
                    ref.hold(node)
                taken.add(node)
                self.held[node] = ref
            self.known[ref] = node
            self.versions[ref] = getattr(ref, "version", 0)

    def __enter__(self) -> Session:
        self.start = buffer_node(None, (), bool_).serial
        _OPEN.session = self
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.session = None

    def take_back(self) -> None:
        """Put back what the call changed, whose program could not be made or not run to its end."""
        for ref, node in self.known.items():
            if ref.node is not node:
                ref.hold(node)
                cell: Any = ref  # a storage counts its versions
                if ref in self.versions and hasattr(cell, "version"):
                    cell.version = self.versions[ref]
        for tensor, grad in self.grads.values():
            if tensor._grad is not None:
                tensor._grad.grad = grad
        for generator, (seed, offset) in self.draws.items():
            generator._seed, generator._offset = seed, offset

    def refuse(self, reason: str) -> None:
        if not self.refusal:
            where = user_line()
            self.refusal = f"{reason} ({where})" if where else reason

    def refuse_shown(self, storage: Any) -> None:
        """The call reads memory that others see; only what was lent may be the cell's own again."""
        if storage.is_lent:
            self.shown.append(storage)
        self.refuse("memory shared with other libraries is read")


def settle(ref: Ref) -> Node:
    """Where a holder has a number: the same number in memory of its own."""
    if ref.node.leaf in ("const", "scalar"):
        ref.hold(_in_memory(ref.node))
    return ref.node


def _in_memory(node: Node) -> Node:
    """A number leaf as a leaf of its own that reads memory."""
    buffer = allocate(node.dtype.itemsize)
    buffer.view(node.dtype, ())[...] = node.attrs[0]
    return buffer_node(buffer, (), node.dtype)


def _is_open() -> bool:
    return _OPEN.session is not None


CAPTURE.is_open = _is_open  # type: ignore[method-assign]


def put_session(session: Session | None) -> None:
    """Make this the session of this thread; None closes it."""
    _OPEN.session = session


def open_session() -> Session | None:
    """The session of this thread, if a call is being captured."""
    return _OPEN.session
