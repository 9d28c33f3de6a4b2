"""Iteration domains as flat arrays: one entry per point, one int64 array per axis.

Extents may depend on sizes and on outer axes, so a domain need not be a box. Everything that the
interpreter evaluates over a domain is an array with one value per point (or a single value).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rushlight.compiler.tile.ir import Axis
from rushlight.ir.symint import Atom, Expr, OpAtom, VarAtom

Index = np.ndarray | int


@dataclass(frozen=True)
class Points:
    """`env`: values of variables by name (arrays of `count`, or ints for sizes). `instance`: the
    number of the grid instance each point belongs to."""

    env: Mapping[str, Index]
    count: int
    instance: np.ndarray

    def take(self, rows: np.ndarray) -> Points:
        """The points at these positions."""
        env = {k: v[rows] if isinstance(v, np.ndarray) else v for k, v in self.env.items()}
        return Points(env, len(rows), self.instance[rows])

    def bind(self, name: str, value: np.ndarray) -> Points:
        return Points({**self.env, name: value}, self.count, self.instance)

    def extent(self, axis: Axis) -> np.ndarray:
        """The axis's extent at every point."""
        value = index_value(axis.extent, self.env)
        return np.maximum(np.broadcast_to(np.asarray(value, np.int64), (self.count,)), 0)

    def over(self, axes: tuple[Axis, ...]) -> tuple[Points, np.ndarray]:
        """All points of `axes` below each of these, in order, and the row each came from."""
        points, rows = self, np.arange(self.count)
        for axis in axes:
            extent = points.extent(axis)
            parent = np.repeat(np.arange(points.count), extent)
            first = np.cumsum(extent) - extent
            value = np.arange(len(parent)) - first[parent]
            points = points.take(parent).bind(axis.name, value)
            rows = rows[parent]
        return points, rows


def root_points(sizes: Mapping[str, int]) -> Points:
    """The single point outside of every axis."""
    return Points(dict(sizes), 1, np.zeros(1, np.int64))


def index_value(at: int | Expr, env: Mapping[str, Index]) -> Index:
    """An index expression, with arrays for its variables."""
    if not isinstance(at, Expr):
        return at
    total: Index = at.const
    for monomial, coef in at.terms:
        part: Index = coef
        for atom in monomial:
            part = part * _atom(atom, env)
        total = total + part
    return total


def _atom(atom: Atom, env: Mapping[str, Index]) -> Index:
    if isinstance(atom, VarAtom):
        return env[atom.name]
    assert isinstance(atom, OpAtom)
    a, b = index_value(atom.a, env), index_value(atom.b, env)
    if atom.op == "floordiv":
        return a // b
    if atom.op == "mod":
        return a % b
    return np.minimum(a, b) if atom.op == "min" else np.maximum(a, b)
