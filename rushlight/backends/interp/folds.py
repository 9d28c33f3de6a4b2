"""The canonical orders of tile/ir: sums, scans and sorts of many rows at once.

Rows come as one flat array with the length of each; rows of equal length are done together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.compiler.tile.ir import CHUNK, PARTIALS, SUM_CHUNK


def by_length(values: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows, matrix of their values) for every length that occurs."""
    first = np.cumsum(lengths) - lengths
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        yield rows, values[first[rows][:, None] + np.arange(length)]


def reduce_rows(kind: str, order: str, values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """One result per row, in the order that tile/ir fixes."""
    dtype = np.dtype(np.int64) if kind.startswith("arg") else values.dtype
    result = np.empty(len(lengths), dtype)
    with np.errstate(all="ignore"):
        for rows, matrix in by_length(values, lengths):
            result[rows] = _reduce_matrix(kind, order, matrix)
    return result


def _reduce_matrix(kind: str, order: str, matrix: np.ndarray) -> np.ndarray:
    if kind in ("sum", "prod"):
        op: Any = np.add if kind == "sum" else np.multiply
        chunks = matrix if order == "tree" else _chunk_results(op, matrix)
        return _tree(op, chunks)
    if kind in ("argmax", "argmin"):
        if matrix.shape[1] == 0:
            return np.zeros(len(matrix), np.int64)
        # numpy takes the first extreme, and the first NaN if there is one.
        return matrix.argmax(1) if kind == "argmax" else matrix.argmin(1)
    if kind in ("any", "all"):
        op = np.bitwise_or if kind == "any" else np.bitwise_and
        return op.reduce(matrix, axis=1, initial=matrix.dtype.type(kind == "all"))
    op = np.maximum if kind == "max" else np.minimum
    result = op.reduce(matrix, axis=1, initial=worst(matrix.dtype, kind))
    return _sign_of_zero(kind, result, _winning_zeros(kind, matrix).any(axis=1))


def _winning_zeros(kind: str, matrix: np.ndarray) -> np.ndarray:
    """Where the zero lies that wins among zeros: +0 for max, -0 for min."""
    if matrix.dtype.kind != "f":
        return np.zeros(matrix.shape, bool)
    return (matrix == 0) & (np.signbit(matrix) == (kind == "min"))


def _sign_of_zero(kind: str, result: np.ndarray, won: np.ndarray) -> np.ndarray:
    if result.dtype.kind != "f":
        return result
    best, other = (0.0, -0.0) if kind == "max" else (-0.0, 0.0)
    return np.where(result == 0, np.where(won, best, other).astype(result.dtype), result)


def _chunk_results(op: Any, matrix: np.ndarray) -> np.ndarray:
    """[rows, n] -> [rows, chunks]. Padding with the identity changes nothing, because partials
    start from it (so a sum is never -0.0)."""
    rows, count = matrix.shape
    if count == 0:
        return matrix
    one = matrix.dtype.type(op.identity)
    chunks = -(-count // CHUNK)
    length = CHUNK if chunks > 1 else -(-count // PARTIALS) * PARTIALS
    padded = np.full((rows, chunks * length), one)
    padded[:, :count] = matrix
    steps = padded.reshape(rows, chunks, -1, PARTIALS)
    partial = np.full((rows, chunks, PARTIALS), one)
    for step in range(steps.shape[2]):
        partial = op(partial, steps[:, :, step])
    width = PARTIALS
    while width > 1:
        width //= 2
        partial = op(partial[:, :, :width], partial[:, :, width : 2 * width])
    return partial[:, :, 0]


def _tree(op: Any, values: np.ndarray) -> np.ndarray:
    """The binary tree over neighbours; an odd last one is carried up."""
    if values.shape[1] == 0:
        return np.full(len(values), op.identity, values.dtype)
    while values.shape[1] > 1:
        pairs = values.shape[1] // 2
        joined = op(values[:, 0 : 2 * pairs : 2], values[:, 1 : 2 * pairs : 2])
        values = np.concatenate([joined, values[:, 2 * pairs :]], axis=1)
    return values[:, 0]


def worst(dtype: np.dtype, kind: str) -> Any:
    """The value every other one beats: the identity of max or min."""
    if dtype == np.bool_:
        return np.bool_(kind == "min")
    if dtype.kind == "f":
        return dtype.type(-np.inf if kind == "max" else np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.min if kind == "max" else info.max)


def scan_rows(kind: str, values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Inclusive left folds, flat like `values`."""
    result = np.empty(len(values), np.int64 if kind.startswith("arg") else values.dtype)
    first = np.cumsum(lengths) - lengths
    with np.errstate(all="ignore"):
        for rows, matrix in by_length(values, lengths):
            places = first[rows][:, None] + np.arange(matrix.shape[1])
            result[places] = _scan_matrix(kind, matrix)
    return result


_ACCUMULATE: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.add.accumulate, "prod": np.multiply.accumulate,
    "max": np.maximum.accumulate, "min": np.minimum.accumulate,
}  # fmt: skip


def _running_sums(matrix: np.ndarray) -> np.ndarray:
    """[running sums] of rows."""
    result, before = np.empty_like(matrix), None
    for start in range(0, matrix.shape[1], SUM_CHUNK):
        chunk = slice(start, start + SUM_CHUNK)
        inner = np.add.accumulate(matrix[:, chunk], axis=1, dtype=matrix.dtype)
        result[:, chunk] = inner if before is None else inner + before
        before = inner[:, -1:] if before is None else before + inner[:, -1:]
    return result


def _scan_matrix(kind: str, matrix: np.ndarray) -> np.ndarray:
    if kind == "running_sum":
        return _running_sums(matrix)
    if not kind.startswith("arg"):
        running = _ACCUMULATE[kind](matrix, axis=1, dtype=matrix.dtype)
        if kind not in ("max", "min"):
            return running
        won = np.logical_or.accumulate(_winning_zeros(kind, matrix), axis=1)
        return _sign_of_zero(kind, running, won)
    running = _ACCUMULATE[kind.removeprefix("arg")](matrix, axis=1)
    # The latest among equals; once a NaN has won, only another NaN replaces it.
    winner = (matrix == running) | (matrix != matrix)
    position = np.where(winner, np.arange(matrix.shape[1]), 0)
    return np.maximum.accumulate(position, axis=1)


def argsort_rows(keys: np.ndarray, lengths: np.ndarray, descending: bool) -> np.ndarray:
    """Stable positions of each row's elements in order; NaN is the largest."""
    result = np.empty(len(keys), np.int64)
    first = np.cumsum(lengths) - lengths
    for rows, matrix in by_length(keys, lengths):
        places = first[rows][:, None] + np.arange(matrix.shape[1])
        if descending:
            # Ascending order of the mirrored row, mirrored: equal keys keep their order.
            mirrored = np.argsort(matrix[:, ::-1], axis=1, kind="stable")
            result[places] = matrix.shape[1] - 1 - mirrored[:, ::-1]
        else:
            result[places] = np.argsort(matrix, axis=1, kind="stable")
    return result
