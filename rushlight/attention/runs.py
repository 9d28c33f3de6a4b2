"""Blocks of a mask as runs: what a BlockMask holds, in memory of the order of its rows.

In: 0, 1, 2 for absent, partial and full blocks. Out: for each row of blocks its runs of neighbours
of one kind. Always true: the runs of a row ascend and are disjoint; two that touch differ in kind.

Shape letters: B batch, H heads, Q rows of blocks, K columns of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

DENSE_AT_ONCE = 1 << 24  # bytes of a band of states


@dataclass(frozen=True)
class Runs:
    """Rows (b, h, q) in row-major order: runs starts[r] ... starts[r + 1] - 1, each the columns
    first ... stop - 1; `full` says the kind."""

    shape: tuple[int, int, int, int]
    starts: np.ndarray
    first: np.ndarray
    stop: np.ndarray
    full: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.starts) - 1

    def row_of_each(self) -> np.ndarray:
        return np.repeat(np.arange(self.rows), np.diff(self.starts))

    def counts(self, full: bool) -> np.ndarray:
        """Blocks of a kind in each row: (B, H, Q), int32."""
        lengths = np.where(self.full == full, self.stop - self.first, 0)
        found = np.bincount(self.row_of_each(), lengths, self.rows)
        return found.astype(np.int32).reshape(self.shape[:3])

    def states(self) -> np.ndarray:
        """(B, H, Q, K), int8."""
        return self.band(0, self.shape[3], 0, self.rows).reshape(self.shape)

    def band(self, low: int, high: int, row: int, last: int) -> np.ndarray:
        """The states of columns low ... high - 1 in rows row ... last - 1: (rows, columns)."""
        here = slice(self.starts[row], self.starts[last])
        first = np.clip(self.first[here], low, high) - low
        stop = np.clip(self.stop[here], low, high) - low
        rows = np.repeat(np.arange(last - row), np.diff(self.starts[row : last + 1]))
        steps = np.zeros((last - row, high - low + 1), np.int8)
        kind = (1 + self.full[here]).astype(np.int8)
        np.add.at(steps, (rows, first), kind)
        np.add.at(steps, (rows, stop), -kind)
        return np.cumsum(steps[:, :-1], axis=1, dtype=np.int8)

    def take(self, rows: np.ndarray, shape: tuple[int, int, int, int]) -> Runs:
        """Some rows, in this order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        at = np.repeat(self.starts[rows], lengths) + inside
        return Runs(shape, starts, self.first[at], self.stop[at], self.full[at])

    def cropped(self, columns: int) -> Runs:
        """The first columns."""
        kept = self.first < columns
        counts = np.bincount(self.row_of_each()[kept], minlength=self.rows)
        starts = np.concatenate(([0], np.cumsum(counts)))
        stop = np.minimum(self.stop[kept], columns)
        return Runs((*self.shape[:3], columns), starts, self.first[kept], stop, self.full[kept])

    def transposed(self) -> Runs:
        """Columns become rows."""
        batch, heads, queries, keys = self.shape
        parts = []
        step = max(1, DENSE_AT_ONCE // max(1, queries))
        for row in range(0, self.rows, max(1, queries)):
            for low in range(0, keys, step):
                band = self.band(low, min(low + step, keys), row, row + queries)
                parts.append(runs_of(np.ascontiguousarray(band.T)[None, None]))
        return joined(parts, (batch, heads, keys, queries))

    def keep_all(self) -> bool:
        """Is every block full?"""
        present = int((self.stop - self.first).sum())
        return bool(self.full.all()) and present == self.rows * self.shape[3]

    def area(self, size: tuple[int, int], lengths: tuple[int, int]) -> int:
        """Elements of the present blocks that lie inside."""
        heights = np.tile(inside(self.shape[2], size[0], lengths[0]), self.shape[0] * self.shape[1])
        widths = np.minimum(self.stop.astype(np.int64) * size[1], lengths[1]) - (
            self.first.astype(np.int64) * size[1]
        )
        return int((heights[self.row_of_each()] * widths).sum())


@dataclass(frozen=True)
class Rects:
    """Disjoint rectangles of blocks of one kind, in any order: rows r0 ... r1 - 1 and columns
    c0 ... c1 - 1 of the matrix number `lead` (b * H + h)."""

    lead: np.ndarray
    r0: np.ndarray
    r1: np.ndarray
    c0: np.ndarray
    c1: np.ndarray
    full: np.ndarray

    def transposed(self) -> Rects:
        return Rects(self.lead, self.c0, self.c1, self.r0, self.r1, self.full)

    def scaled(self, rows: int, columns: int) -> Rects:
        """Each block cut into rows x columns."""
        return Rects(
            self.lead, self.r0 * rows, self.r1 * rows, self.c0 * columns, self.c1 * columns,
            self.full,
        )  # fmt: skip

    def as_partial(self) -> Rects:
        return replace(self, full=np.zeros(len(self.full), bool))

    def runs(self, shape: tuple[int, int, int, int]) -> Runs:
        """Row by row."""
        heights = np.maximum(np.minimum(self.r1, shape[2]) - self.r0, 0)
        each = np.repeat(np.arange(len(heights)), heights)
        step = np.arange(len(each)) - np.repeat(np.cumsum(heights) - heights, heights)
        row = self.lead[each] * shape[2] + self.r0[each] + step
        first, stop = self.c0[each], np.minimum(self.c1[each], shape[3])
        order = np.lexsort((first, row))
        row, first, stop, full = row[order], first[order], stop[order], self.full[each][order]
        kept = first < stop
        row, first, stop, full = row[kept], first[kept], stop[kept], full[kept]
        return _merged_runs(shape, row, first, stop, full)


def _merged_runs(
    shape: tuple[int, int, int, int], row: np.ndarray, first: np.ndarray, stop: np.ndarray,
    full: np.ndarray,
) -> Runs:  # fmt: skip
    """Neighbours of one kind become one; sorted by row and first."""
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (first[1:] != stop[:-1]) | (full[1:] != full[:-1])
    last = np.append(new[1:], True) if len(row) else new
    rows = int(np.prod(shape[:3]))
    counts = np.bincount(row[new], minlength=rows)
    starts = np.concatenate(([0], np.cumsum(counts)))
    first, stop = first[new].astype(np.int32), stop[last].astype(np.int32)
    return Runs(shape, starts, first, stop, full[new])


def joined_rects(parts: list[Rects]) -> Rects:
    names = [f.name for f in fields(Rects)]
    return Rects(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def inside(blocks: int, size: int, length: int) -> np.ndarray:
    """How many elements of each block lie before `length`."""
    return np.clip(length - np.arange(blocks) * size, 0, size)


def runs_of(states: np.ndarray) -> Runs:
    """The runs of states (B, H, Q, K)."""
    flat = states.reshape(-1, states.shape[3])
    edge = np.zeros((len(flat), 1), np.int8)
    before = np.concatenate((edge, flat), axis=1)
    after = np.concatenate((flat, edge), axis=1)
    changes = before != after
    row, first = np.nonzero(changes & (after != 0))
    _, stop = np.nonzero(changes & (before != 0))
    starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(flat)))))
    full = after[row, first] == 2
    return Runs(states.shape, starts, first.astype(np.int32), stop.astype(np.int32), full)


def joined(parts: list[Runs], shape: tuple[int, int, int, int]) -> Runs:
    """Rows of all parts, one after another."""
    if not parts:
        return runs_of(np.zeros(shape, np.int8))
    offsets = np.cumsum([0, *(len(part.first) for part in parts)])
    starts = [part.starts[:-1] + at for part, at in zip(parts, offsets, strict=False)]
    names = ("first", "stop", "full")
    whole = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Runs(shape, np.concatenate((*starts, offsets[-1:])), *whole)


def regridded(
    runs: Runs, size: tuple[int, int], lengths: tuple[int, int], new: tuple[int, int]
) -> Runs:
    """The same mask in blocks of another size: present where any, full where all old blocks are."""
    rows, columns = (-(-n // s) for n, s in zip(lengths, new, strict=True))
    batch, heads = runs.shape[:2]
    shape = (batch, heads, rows, columns)
    if size[0] % new[0] == 0 and size[1] % new[1] == 0:
        return _split_blocks(runs, (size[0] // new[0], size[1] // new[1]), shape)
    low = np.arange(rows) * new[0] // size[0]
    high = (np.minimum((np.arange(rows) + 1) * new[0], lengths[0]) - 1) // size[0] + 1
    parts = []
    step = max(1, DENSE_AT_ONCE // max(1, runs.shape[3] * (1 + new[0] // size[0])))
    for row in range(0, batch * heads * runs.shape[2], max(1, runs.shape[2])):
        for at in range(0, rows, step):
            here = slice(at, min(at + step, rows))
            top = low[here][0]
            band = runs.band(0, runs.shape[3], row + top, row + high[here][-1])
            band = _merged(band, low[here] - top, high[here] - top)
            band = _merged(band.T, *_column_spans(columns, size[1], new[1], lengths[1])).T
            parts.append(runs_of(np.ascontiguousarray(band)[None, None]))
    return joined(parts, shape)


def _column_spans(columns: int, old: int, new: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    low = np.arange(columns) * new // old
    return low, (np.minimum((np.arange(columns) + 1) * new, length) - 1) // old + 1


def _split_blocks(runs: Runs, factor: tuple[int, int], shape: tuple[int, int, int, int]) -> Runs:
    """Blocks cut into equal parts."""
    lead = np.arange(runs.shape[0] * runs.shape[1])[:, None] * runs.shape[2]
    rows = (lead + np.arange(shape[2]) // factor[0]).ravel()
    wide = runs.take(rows, (*shape[:3], runs.shape[3]))
    first, stop = (x * np.int32(factor[1]) for x in (wide.first, wide.stop))
    return Runs(shape, wide.starts, first, np.minimum(stop, shape[3]), wide.full)


def _merged(states: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """One row per range low ... high - 1 of rows: 2 where all are, 1 where any is present."""
    padded = np.concatenate((states, states[-1:]))  # an end may be the number of rows
    edges = np.stack((low, high), axis=1).ravel()
    least, most = (f.reduceat(padded, edges, axis=0)[::2] for f in (np.minimum, np.maximum))
    return np.where(least == 2, 2, most > 0).astype(np.int8)
