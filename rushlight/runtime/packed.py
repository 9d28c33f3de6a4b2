"""Packed forms of operands that do not change, kept between runs.

A contraction copies its operands into panels. Weights are the same at each call of inference, so
their panels can stay. In: what a plan could keep (`Keep`), the buffers of its inputs. Out: a
`Lease`, an address for each: 0 (pack for yourself), the panels, or the panels with the lowest bit
set (pack, and leave the panels there).

Always true: panels are lent only for the same buffers as they were made of, and nothing has written
to these since. Programs write where their results are (`written`); a buffer is no other one's
because its address is the same; memory that others can write to (numpy) is never packed to stay.
What is used only once is not kept: the first run is noted, the second one leaves its panels; where
panels were left for nothing, as in training with two runs for each step, more runs are waited for.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rushlight.base.config import config
from rushlight.base.errors import OutOfMemoryError
from rushlight.base.fork import hold_over_fork
from rushlight.runtime import allocator
from rushlight.runtime.buffer import Buffer, allocate

TO_FILL = 1
# A form that was not asked for, while so many turns of all forms passed, makes room for others.
STALE_TURNS = 4
# Uses before panels are left; doubled each time they were not read before a write.
LEAST_USES, MOST_USES = 1, 64
MOST_ADDRESSES = 4096
Key = tuple[object, ...]


@dataclass(frozen=True)
class Keep:
    """Panels that could stay. key: equal for equal layouts. sources: the buffers that they are made
    of, as numbers (of the program, or of the plan). nbytes: of the panels."""

    key: str
    sources: tuple[int, ...]
    nbytes: int


class _Form:
    """The panels of some buffers: noted (no memory yet), being filled, or ready."""

    __slots__ = ("sources", "addresses", "memory", "ready", "used", "uses", "run", "reads")

    def __init__(self, sources: tuple[weakref.ref, ...], addresses: tuple[int, ...]) -> None:
        self.sources, self.addresses = sources, addresses
        self.memory: Buffer | None = None
        self.ready = False
        self.used = self.uses = self.run = self.reads = 0

    def is_of(self, sources: Sequence[Buffer]) -> bool:
        """Was it made of these buffers, and not of others that had their places?"""
        for ref, source in zip(self.sources, sources, strict=True):  # noqa: SIM110
            if ref() is not source:
                return False
        return True


@dataclass
class Lease:
    """places: what a run gets. The memory lives as long as this."""

    places: list[int] = field(default_factory=list)
    filling: list[tuple[Key, _Form]] = field(default_factory=list)
    held: list[Buffer] = field(default_factory=list)


class PackedForms:
    """All forms of a process. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: dict[Key, _Form] = {}
        # Empty: there is nothing that a write could make wrong.
        self.at: dict[int, set[Key]] = {}
        self._gone: deque[Key] = deque()
        self._uses_before: dict[int, int] = {}  # by address; else LEAST_USES
        self._clock = self._next_look = self._bytes = self._run = 0

    def lend(self, keeps: Sequence[Keep], inputs: Sequence[Buffer]) -> Lease:
        """For one run of a plan; `settle` comes after it."""
        lease = Lease()
        with self._lock:
            if self._gone:
                self._sweep()
            self._run += 1
            for keep in keeps:
                sources = list(map(inputs.__getitem__, keep.sources))
                lease.places.append(self._place(keep, sources, lease))
        return lease

    def settle(self, lease: Lease, ran: bool) -> None:
        """The run is over. ran: to its end, so what it should leave is there."""
        with self._lock:
            for key, form in lease.filling:
                if ran:
                    form.ready = True
                elif self._forms.get(key) is form:
                    self._drop(key)

    def written(self, addresses: Sequence[int] | np.ndarray) -> None:
        """A program writes to memory that begins there: before it runs."""
        if self.at.keys().isdisjoint(addresses):
            return
        with self._lock:
            given = addresses.tolist() if isinstance(addresses, np.ndarray) else addresses
            # All are found first: a form that is made of several buffers is at several addresses.
            found = [(at, key) for at in self.at.keys() & given for key in self.at[at]]
            for address, key in found:
                self._learn(address, self._forms[key])
            for key in {key for _, key in found}:
                self._drop(key)

    def clear(self) -> None:
        """Give all panels up, unless somebody is just busy with them."""
        if self._lock.acquire(blocking=False):
            try:
                for key in list(self._forms):
                    self._drop(key)
            finally:
                self._lock.release()

    def nbytes(self) -> int:
        """Of all panels that are kept."""
        with self._lock:
            self._sweep()
            return self._bytes

    def survive_forks(self) -> PackedForms:
        hold_over_fork(self._lock)
        return self

    def _place(self, keep: Keep, sources: Sequence[Buffer], lease: Lease) -> int:
        """With the lock held."""
        for source in sources:
            if not source.private:
                return 0
        key = (keep.key, *map(id, sources))
        form = self._forms.get(key)
        self._clock += 1
        if form is None or not form.is_of(sources):
            if form is not None:
                self._drop(key)
            self._note(key, sources)
            return 0
        form.used = self._clock
        if form.memory is None:
            if form.run != self._run:  # several uses in one run are one
                form.run, form.uses = self._run, form.uses + 1
            before = max(self._uses_before.get(at, LEAST_USES) for at in form.addresses)
            if form.uses < before + 1:
                return 0
            form.memory = self._room(keep.nbytes)
            if form.memory is None:
                return 0
            lease.filling.append((key, form))
            lease.held.append(form.memory)
            return form.memory.address | TO_FILL
        if not form.ready:  # another call fills it now
            return 0
        form.reads += 1
        lease.held.append(form.memory)
        return form.memory.address

    def _learn(self, address: int, form: _Form) -> None:
        """It was written to: were the panels worth it?"""
        if form.reads:
            self._uses_before.pop(address, None)
        elif form.memory is not None:
            if len(self._uses_before) >= MOST_ADDRESSES:
                self._uses_before.clear()
            before = self._uses_before.get(address, LEAST_USES)
            self._uses_before[address] = min(2 * before, MOST_USES)

    def _note(self, key: Key, sources: Sequence[Buffer]) -> None:
        def gone(_: object) -> None:
            # May come at any time, also while this thread holds the lock: only noted.
            self._gone.append(key)

        refs = tuple(weakref.ref(source, gone) for source in sources)
        form = _Form(refs, tuple(source.address for source in sources))
        form.used, form.run, form.uses = self._clock, self._run, 1
        self._forms[key] = form
        for address in form.addresses:
            self.at.setdefault(address, set()).add(key)

    def _sweep(self) -> None:
        """Forget the forms of buffers that are gone."""
        while self._gone:
            key = self._gone.popleft()
            form = self._forms.get(key)
            if form is not None and any(ref() is None for ref in form.sources):
                self._drop(key)

    def _drop(self, key: Key) -> None:
        form = self._forms.pop(key)
        self._bytes -= 0 if form.memory is None else form.memory.nbytes
        for address in form.addresses:
            keys = self.at.get(address)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self.at[address]

    def _room(self, nbytes: int) -> Buffer | None:
        """Memory within the budget, or None: what is there stays, as long as it is in use."""
        most = config.packed_weights_mb << 20
        if self._bytes + nbytes > most and self._clock >= self._next_look:
            self._next_look = self._clock + len(self._forms)
            old = self._clock - STALE_TURNS * len(self._forms)
            for key in [key for key, form in self._forms.items() if form.used < old]:
                self._drop(key)
        if self._bytes + nbytes > most:
            return None
        try:
            made = allocate(nbytes)
        except OutOfMemoryError:
            return None
        self._bytes += nbytes
        return made


PACKED = PackedForms().survive_forks()
allocator.DEFAULT.add_extra(PACKED)
