"""A kept update run as one program, without recording it: what `repeat.py` makes of an update whose
inputs are all in memory.

In: the storages that the update reads and changes. Out: their new values, written over the old ones
where nobody else sees these. The program is the one that a flush of the recorded update would run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base.config import config
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.realize import LOCK, programs, run_at, site_text
from rushlight.engine.signature import record
from rushlight.ir.node import Node
from rushlight.tensors.overwrite import Overwritten, put
from rushlight.tensors.replay_room import Room
from rushlight.tensors.tracked import Tracked

_address = operator.attrgetter("buffer.address")
_serial = operator.attrgetter("serial")


class Direct:
    """sources   of the program's inputs: numbers of storages
    changes   (storage number, result, versions)"""

    def __init__(self, nodes: Sequence[Node], changes: Sequence[tuple[int, Node, int]]) -> None:
        """`nodes`: what the storages hold now; `changes`: (storage number, new value, versions)."""
        number = {node: i for i, node in enumerate(nodes)}
        roots = sorted({node for _, node, _ in changes}, key=_serial)
        recording = record(roots)
        self.sources = [number[node] for node in recording.inputs]
        changed = {i for i, _, _ in changes}
        donated = frozenset(i for i, source in enumerate(self.sources) if source in changed)
        self.program, self.values = programs().find(recording, donated, site_text)
        self.made_with = programs(), config.backend
        self.may_fail = self.program.may_fail
        layout = self.program.layout(self.values)
        result = {root: i for i, root in enumerate(roots)}
        self.changes = [(i, result[node], versions) for i, node, versions in changes]
        self.overwritten = Overwritten(sorted(donated))
        count = len(recording.inputs)
        self.room = Room(self.program, layout, count, range(len(roots)), (), ())
        reuse = self.program.plan.reuse
        place = {source: i for i, source in enumerate(self.sources)}
        self.moved = [c for c in self.changes if reuse.get(count + c[1]) != place.get(c[0])]
        self.stays = {place[c[0]]: c for c in self.changes if c not in self.moved}
        self.numbers = list(recording.numbers)
        self.tracked: list[tuple[int, Callable[[], float]]] = [
            (i, leaf.buffer.read)
            for i, leaf in enumerate(recording.scalars)
            if isinstance(leaf.buffer, Tracked)
        ]

    def run(self, storages: Sequence[Any]) -> bool:
        """False, with nothing done, where an input is not in memory or programs are others."""
        if self.made_with != (programs(), config.backend):
            return False
        with LOCK:
            nodes = [storages[source].node for source in self.sources]
            try:
                addresses = list(map(_address, nodes))
            except AttributeError:
                return False
            copies = self.overwritten.copies(nodes)
            for place, copy in copies.items():
                addresses[place] = copy.address
            for position, read in self.tracked:
                self.numbers[position] = read()
            with Uninterrupted(True):
                self._run(storages, nodes, addresses, copies)
        return True

    def _run(
        self, storages: Sequence[Any], nodes: list[Node], addresses: list[int], copies: dict
    ) -> None:
        results = self.room.take(addresses, ())
        arena = self.room.with_arena()
        run_at(self.program, self.room.pointers, self.values, nodes, self.numbers)
        del arena
        if copies or self.moved:
            for result, place in self.room.over:
                results[result] = copies.get(place) or nodes[place].buffer
            for number, result, _ in self.moved:
                put(storages[number], storages[number].node, results[result])
            for place, copy in copies.items():
                if place in self.stays:
                    put(storages[self.stays[place][0]], nodes[place], copy)
        for number, _, versions in self.changes:
            storages[number].version += versions
