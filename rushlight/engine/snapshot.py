"""A snapshot of Python values that is quick to compare with what is there now.

In: containers, namespaces and cells as a walk meets them (`add_*`), then `seal`. Out: `holds()`.
Values are compared by identity, first in flat C loops, after a few times in code made for them
(checks.py); where that fails, numbers and texts of the same class and value count as the same.
"""

from __future__ import annotations

import itertools
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.engine.checks import SIMPLE, UNREADABLE, Checks, Compared, same

_is = operator.is_
_call = operator.call
_values = dict.values
_chain = itertools.chain.from_iterable
_cell_contents = operator.attrgetter("cell_contents")
_namespace = operator.attrgetter("__dict__")
_function_parts = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")


class Snapshot:
    """`tensors`: every tensor that was found. `unguardable`: why it can never be replayed."""

    def __init__(self) -> None:
        self.unguardable = ""
        self.tensors: list[Any] = []
        self.count = 0
        self._seen: dict[int, Any] = {}  # keeps what was met alive, so ids stay theirs
        self._shared: dict[int, Any] = {}
        self._dicts: list[tuple[dict, str]] = []
        self._sequences: list[tuple[Any, str]] = []
        self._cells: list[tuple[types.CellType, str]] = []
        self._entries: list[tuple[Any, list[str], str]] = []
        self._absent: list[tuple[Any, frozenset[str], str]] = []
        self._holders: list[tuple[Any, dict]] = []
        self._functions: list[tuple[types.FunctionType, str]] = []
        self._others: list[tuple[Callable[[], Any], Any, str]] = []
        self._sealed: _Sealed | None = None

    def enter(self, value: Any) -> bool:
        """Is this object new to the walk?"""
        if id(value) in self._seen:
            if isinstance(value, (dict, list, tuple)):
                self._shared[id(value)] = value
            return False
        self._seen[id(value)] = value
        return True

    def met(self, value: Any) -> bool:
        return id(value) in self._seen

    def is_shared(self, value: Any) -> bool:
        """Was this container, or one that holds it, reached in two ways?"""
        return id(value) in self._shared or any(
            isinstance(holder, (list, tuple)) and any(value is item for item in holder)
            for holder in self._shared.values()
        )

    def add_dict(self, mapping: dict, name: str) -> None:
        self._dicts.append((mapping, name))
        self.count += len(mapping) + 1

    def add_sequence(self, items: Any, name: str) -> None:
        if not isinstance(items, tuple):
            self._sequences.append((items, name))
        self.count += len(items)

    def add_cell(self, cell: types.CellType, name: str) -> None:
        self._cells.append((cell, name))
        self.count += 1

    def add_entries(self, mapping: Any, names: list[str], name: str) -> None:
        if names:
            self._entries.append((mapping, names, name))
            self.count += len(names)

    def add_absent(self, mapping: Any, names: frozenset[str], name: str) -> None:
        if names:
            self._absent.append((mapping, names, name))

    def add_holder(self, value: Any, space: dict) -> None:
        self._holders.append((value, space))

    def add_function(self, fn: types.FunctionType, name: str) -> None:
        self._functions.append((fn, name))
        self.count += 1

    def add_other(self, read: Callable[[], Any], name: str) -> None:
        self._others.append((read, read(), name))
        self.count += 1

    def seal(self, free: dict[int, set[str]] | None = None) -> Snapshot:
        """Note the values as they are now. `free`: id of a dict -> keys that may change."""
        self._sealed = _Sealed(self, free or {})
        return self

    def holds(self) -> bool:
        return self._sealed is not None and self._sealed.holds()

    def difference(self) -> str:
        """The name of something that changed ("" if nothing did)."""
        return "" if self._sealed is None else self._sealed.difference()

    def reason(self) -> str:
        """The same for people: with the number or text that it was, and the one that it is."""
        return "" if self._sealed is None else self._sealed.reason()


def _picker(names: list[str]) -> Callable[[Any], tuple]:
    """A function that takes these entries of a mapping, as a tuple."""
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda mapping: (mapping[names[0]],)


class _Flat:
    """Values read by one C iterator, and what they were."""

    def __init__(self, read: Callable[[], Iterable[Any]], names: list[str]) -> None:
        self.read = read
        self.names = names
        self.values = list(read())

    def holds(self) -> bool:
        return all(map(_is, self.read(), self.values)) or not self.difference()

    def difference(self) -> str:
        return self.change()[0]

    def change(self) -> tuple[str, Any, Any]:
        """The name of the first value that changed, what it was, and what it is; "": none did."""
        values = self.values
        now = list(self.read())
        if len(now) != len(values):
            return self.names[0] if self.names else "a container", len(values), len(now)
        for position, value in enumerate(now):
            if not same(value, values[position]):
                return self.names[min(position, len(self.names) - 1)], values[position], value
            values[position] = value
        return "", None, None


class _Sources:
    """Where the values are. `whole`: dicts of which everything is guarded, and their names;
    `entries`: of others."""

    def __init__(
        self, snapshot: Snapshot, whole: list[tuple[dict, str]],
        entries: list[tuple[Any, list[str], str]],
    ) -> None:  # fmt: skip
        self.plain = [d for d, _ in whole]
        self.sequences = [s for s, _ in snapshot._sequences]
        self.cells = [c for c, _ in snapshot._cells]
        self.spaces = [mapping for mapping, _, _ in entries]
        self.entry_names = [names for _, names, _ in entries]
        self.pickers = [_picker(names) for _, names, _ in entries]
        self.functions = [f for f, _ in snapshot._functions]
        self.holders = [h for h, _ in snapshot._holders]
        # A method may be hidden by a new attribute, and code may ask for one that was not there.
        self.namespaces = [space for _, space in snapshot._holders]
        self.names = [
            [f"{n}[{k!r}]" if isinstance(k, SIMPLE) else f"{n}[...]" for d, n in whole for k in d],
            [n for d, n in whole for _ in d],
            [n for s, n in snapshot._sequences for _ in s],
            [n for _, n in snapshot._cells],
            [f"{n}.{k}" if n else k for _, ks, n in entries for k in ks],
            [n for _, n in snapshot._functions for _ in range(3)],
            ["an object's attributes"] * len(self.holders),
            ["the class of an object"] * len(self.holders),
            ["the number of an object's attributes"] * len(self.holders),
        ]

    def read(self) -> tuple[Iterable[Any], ...]:
        """C iterators over the values as they are now, one for each kind."""
        return (
            _chain(map(_values, self.plain)),
            _chain(self.plain),
            _chain(self.sequences),
            map(_cell_contents, self.cells),
            _chain(map(_call, self.pickers, self.spaces)),  # type: ignore[arg-type]
            _chain(map(_function_parts, self.functions)),
            map(_namespace, self.holders),
            map(type, self.holders),
            map(len, self.namespaces),
        )

    def write(self, checks: Checks) -> None:
        """The same values as comparisons."""
        for mapping in self.plain:
            name = checks.name(mapping)
            plain = mapping.__class__ is dict  # else its class may have ways of its own
            values = f"{name}.values()" if plain else f"{checks.name(dict.values)}({name})"
            checks.add_items(values, dict.values(mapping))
            if all(key.__class__ is str for key in mapping):
                checks.add(f"[*{name}] == {checks.name(list(mapping))}")
            else:
                checks.add_items(name, mapping)
            checks.next()
        for items in self.sequences:
            checks.add_items(checks.name(items), items)
            checks.next()
        for cell in self.cells:
            checks.add_same(f"{checks.name(cell)}.cell_contents", cell.cell_contents)
            checks.next()
        for mapping, names in zip(self.spaces, self.entry_names, strict=True):
            for key in names:
                checks.add_same(f"{checks.name(mapping)}[{checks.name(key)}]", mapping[key])
                checks.next()
        for function in self.functions:
            for part in ("__code__", "__defaults__", "__kwdefaults__"):
                checks.add_same(f"{checks.name(function)}.{part}", getattr(function, part))
            checks.next()
        for holder, space in zip(self.holders, self.namespaces, strict=True):
            name, known = checks.name(holder), checks.name(space)
            checks.add(f"{name}.__dict__ is {known} and len({known}) == {len(space)}")
            checks.add(f"type({name}) is {checks.name(type(holder))}")
            checks.next()

    def flats(self) -> list[_Flat]:
        """Those of a kind, one after the other."""
        return [
            _Flat(lambda kind=kind: self.read()[kind], names)
            for kind, names in enumerate(self.names)
        ]


class _Sealed:
    def __init__(self, snapshot: Snapshot, free: dict[int, set[str]]) -> None:
        whole = [(d, n) for d, n in snapshot._dicts if d and id(d) not in free]
        self.dicts = [d for d, _ in whole] + [d for d, _ in snapshot._dicts if d and id(d) in free]
        self.sizes = list(map(len, self.dicts))
        self.size_names = [n for _, n in whole]
        self.empty = [(d, n) for d, n in snapshot._dicts if not d]
        self.empty_dicts = [d for d, _ in self.empty]
        self.sequences = [s for s, _ in snapshot._sequences]
        self.lengths = list(map(len, self.sequences))
        entries = [entry for entry in snapshot._entries if entry[1]]
        for mapping, name in snapshot._dicts:
            kept = [k for k in mapping if k not in free.get(id(mapping), mapping)]
            if kept:
                entries.append((mapping, kept, name))
        self.sources = _Sources(snapshot, whole, entries)
        self.flat = [flat for flat in self.sources.flats() if flat.values]
        self.absent = [(m.keys().isdisjoint, names, n) for m, names, n in snapshot._absent]
        self.others = snapshot._others
        # The same for the quick way: everything of a kind in one pass.
        self.sized = [*self.dicts, *self.sequences]
        self.all_sizes = [*self.sizes, *self.lengths]
        self.values = [value for flat in self.flat for value in flat.values]
        self.aparts = [apart for apart, _, _ in self.absent]
        self.absent_names = [names for _, names, _ in self.absent]
        self.compared = Compared(self._holds, self._write)

    def _write(self, checks: Checks) -> None:
        for mapping in self.empty_dicts:
            checks.add(f"not {checks.name(mapping)}")
            checks.next()
        # Those of which everything is compared are taken apart, which says how many there are.
        for mapping in self.dicts[len(self.sources.plain) :]:
            checks.add(f"len({checks.name(mapping)}) == {len(mapping)}")
            checks.next()
        self.sources.write(checks)
        for apart, names in zip(self.aparts, self.absent_names, strict=True):
            checks.add(f"{checks.name(apart)}({checks.name(names)})")
            checks.next()

    def holds(self) -> bool:
        return self.compared.holds() and (
            not self.others or all([same_content(read(), value) for read, value, _ in self.others])
        )

    def _holds(self) -> bool:
        try:
            return (
                list(map(len, self.sized)) == self.all_sizes
                and not any(self.empty_dicts)
                and (all(map(_is, _chain(self.sources.read()), self.values)) or self._equal())
                and all(map(_call, self.aparts, self.absent_names))  # type: ignore
            )
        except UNREADABLE:
            return False

    def _equal(self) -> bool:
        """Are the values that are other objects equal numbers and texts? They are the ones to
        compare with from now on."""
        found = all([flat.holds() for flat in self.flat])
        self.values = [value for flat in self.flat for value in flat.values]
        return found

    def reason(self) -> str:
        """`difference`, with both values where they are numbers or texts."""
        name = self.difference()
        for flat in self.flat if name else ():
            try:
                changed, before, now = flat.change()
            except UNREADABLE:
                continue
            if changed == name:
                if isinstance(before, SIMPLE) and isinstance(now, SIMPLE):
                    return f"{name}: {before!r} -> {now!r}"
                return f"{name} is another {type(now).__name__}"
        return name

    def difference(self) -> str:
        """A name, for messages; "" when all holds."""
        for mapping, name in self.empty:
            if mapping:
                return name
        if list(map(len, self.dicts)) != self.sizes:
            pairs = zip(map(len, self.dicts), self.sizes, strict=True)
            at = next(i for i, (now, before) in enumerate(pairs) if now != before)
            return self.size_names[at] if at < len(self.size_names) else "a dict"
        if list(map(len, self.sequences)) != self.lengths:
            return "the length of a list"
        try:
            for flat in self.flat:
                if found := flat.difference():
                    return found
        except UNREADABLE as error:
            return str(error)
        for apart, names, name in self.absent:
            if not apart(names):
                return f"{name}.{'|'.join(sorted(names))}"
        return next((n for read, v, n in self.others if not same_content(read(), v)), "")


def same_content(now: Any, before: Any) -> bool:
    """Contents that `add_other` reads: bytes, sets of ids, tuples, single objects."""
    if now is before:
        return True
    if isinstance(before, tuple) and isinstance(now, tuple):
        return len(now) == len(before) and all(map(_is, now, before))
    if isinstance(before, frozenset):
        return now == before
    return same(now, before)
