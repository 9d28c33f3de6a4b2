"""Buffers and tiles while a program runs, with the checks that native code has no time for.

Every read and write is checked against the bounds. With `races=True` each element remembers which
instance wrote and read it in the current grid, and it is an error when an instance touches what
another one writes. A masked-off element is never touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.backends.interp.points import Points, index_value
from rushlight.compiler.tile.ir import Buffer, Local, Program

NOBODY, MANY = -1, -2


class RaceError(RuntimeError):
    """Two instances of a grid touch one element and at least one writes: a compiler fault."""


class Memory:
    def __init__(self, program: Program, arrays: Sequence[np.ndarray], races: bool) -> None:
        self.program = program
        self.arrays = dict(zip(program.buffers, arrays, strict=True))
        self.tiles: dict[Local, np.ndarray] = {}
        self.first = 0
        self.races = races
        self.place = program.name
        self.readers: dict[Buffer, np.ndarray] = {}
        self.writers: dict[Buffer, np.ndarray] = {}

    def begin_grid(self, number: int) -> None:
        self.place = f"{self.program.name}, grid {number}"
        self.readers, self.writers = {}, {}

    def begin_instances(self, first: int) -> None:
        """A block of instances starts, numbered from `first`: tiles are empty again."""
        self.tiles, self.first = {}, first

    def read(self, place: Buffer | Local, at: np.ndarray, points: Points) -> np.ndarray:
        if isinstance(place, Local):
            tile = self.tiles.get(place)
            if tile is None:
                raise IndexError(f"{self.place}: tile {place.name} is read before it is stored")
            self._check(place.name, at, tile.shape[1])
            return tile[points.instance - self.first, at]
        array = self.arrays[place]
        self._check(place.name, at, len(array))
        if self.races:
            self._note_read(place, at, points.instance)
        return array[at]

    def write(
        self, place: Buffer | Local, at: np.ndarray, value: np.ndarray, points: Points
    ) -> None:
        if value.dtype != place.dtype.np:
            raise TypeError(f"{self.place}: {value.dtype} stored into {place.name} {place.dtype}")
        if isinstance(place, Local):
            tile = self._tile(place, points)
            self._check(place.name, at, tile.shape[1])
            tile[points.instance - self.first, at] = value
            return
        array = self.arrays[place]
        self._check(place.name, at, len(array))
        if self.races:
            self._note_write(place, at, points.instance)
        array[at] = value

    def _tile(self, place: Local, points: Points) -> np.ndarray:
        """One row per instance, as long as the longest one needs."""
        size = int(np.max(index_value(place.size, points.env), initial=0))
        rows = int(points.instance.max(initial=-1)) + 1 - self.first
        old = self.tiles.get(place)
        if old is not None and old.shape[0] >= rows and old.shape[1] >= size:
            return old
        shape = (rows, size) if old is None else tuple(np.maximum((rows, size), old.shape))
        tile = np.zeros(shape, place.dtype.np)
        if old is not None:
            tile[: old.shape[0], : old.shape[1]] = old
        self.tiles[place] = tile
        return tile

    def _check(self, name: str, at: np.ndarray, size: int) -> None:
        bad = (at < 0) | (at >= size)
        if bad.any():
            raise IndexError(f"{self.place}: offset {at[bad][0]} of {name}, which has {size}")

    def _note_read(self, place: Buffer, at: np.ndarray, who: np.ndarray) -> None:
        readers, writers = self._notes(place)
        wrote = writers[at]
        self._clash(place, at, (wrote != NOBODY) & (wrote != who), "reads what another wrote")
        # The first of several readers of one element in this batch stays; the rest make it MANY.
        before = readers[at]
        readers[at] = np.where((before == NOBODY) | (before == who), who, MANY)
        readers[at[readers[at] != who]] = MANY

    def _note_write(self, place: Buffer, at: np.ndarray, who: np.ndarray) -> None:
        readers, writers = self._notes(place)
        read, wrote = readers[at], writers[at]
        self._clash(place, at, (read != NOBODY) & (read != who), "writes what another read")
        self._clash(place, at, (wrote != NOBODY) & (wrote != who), "writes what another wrote")
        writers[at] = who
        self._clash(place, at, writers[at] != who, "writes what another wrote")

    def _notes(self, place: Buffer) -> tuple[np.ndarray, np.ndarray]:
        if place not in self.readers:
            size = len(self.arrays[place])
            self.readers[place] = np.full(size, NOBODY, np.int64)
            self.writers[place] = np.full(size, NOBODY, np.int64)
        return self.readers[place], self.writers[place]

    def _clash(self, place: Buffer, at: np.ndarray, bad: np.ndarray, what: str) -> None:
        if bad.any():
            raise RaceError(f"{self.place}: an instance {what}: {place.name}[{at[bad][0]}]")
