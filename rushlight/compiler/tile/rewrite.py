"""Changing the expressions and axes of tile programs; the tools of every pass over them.

In: a Program (or a part) and a function. Out: a new one; parts that do not change stay the same
objects. Always true: an expression that occurs twice is rewritten once, and index expressions are
followed into the values they hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.compiler.tile import ir
from rushlight.ir import scalar
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import substitute, variables

Index = int | Expr


def rewrite_expr(root: E, fn: Callable[[E], E], memo: dict[E, E] | None = None) -> E:
    """Bottom-up: `fn` gets every node with its arguments already rewritten."""
    memo = {} if memo is None else memo
    found = memo.get(root)
    if found is not None:
        return found
    for node in scalar.topological((root,)):
        if node not in memo:
            memo[node] = fn(_with_children(node, memo))
    return memo[root]


def _with_children(node: E, memo: Mapping[E, E]) -> E:
    args = tuple(memo[a] for a in node.args)
    meta = node.meta
    if node.op in ("load", "local"):
        at = _replace_values(meta[1], memo)
        if args == node.args and at is meta[1]:
            return node
        return scalar.make(node.op, args, node.dtype, (meta[0], at))
    if node.op == "index":
        at = _replace_values(meta, memo)
        if not isinstance(at, Expr):
            return scalar.const(at, node.dtype)
        meta = at
    if args == node.args and meta is node.meta:
        return node
    return scalar.make(node.op, args, node.dtype, meta)


def _replace_values(at: Index, memo: Mapping[E, E]) -> Index:
    """An index expression whose "value" variables stand for rewritten expressions."""
    if not isinstance(at, Expr):
        return at
    changed: dict[str, Index] = {}
    for name, var in variables(at).items():
        if var.kind == "value":
            old: E = var.payload  # type: ignore[assignment]
            if memo[old] is not old:
                changed[name] = scalar.as_index(memo[old], var.atom.lo, var.atom.hi)  # type: ignore[arg-type]
    return substitute(at, changed) if changed else at


def map_index(at: Index, fn: Callable[[E], E]) -> Index:
    """An index expression with `fn` applied to the values it holds."""
    values = scalar.index_values(at)
    return _replace_values(at, {v: fn(v) for v in values}) if values else at


def map_exprs(program: ir.Program, fn: Callable[[E], E]) -> ir.Program:
    """`fn` applied to every whole expression of the program (values, masks, keys, finishes, and
    the values inside offsets)."""
    return _map_fields(program, fn, lambda at: map_index(at, fn), lambda axis: axis)


def substitute_axes(part: Any, mapping: Mapping[str, Index]) -> Any:
    """A statement, grid or program with axis variables (by name) replaced by index expressions.

    Axes named in the mapping must no longer be bound inside `part`; extents are rewritten too.
    """
    memo: dict[E, E] = {}

    def index(at: Index) -> Index:
        return substitute(map_index(at, expression), mapping)

    def node(e: E) -> E:
        if e.op in ("load", "local"):
            at = substitute(e.meta[1], mapping)
            return e if at == e.meta[1] else scalar.make(e.op, e.args, e.dtype, (e.meta[0], at))
        if e.op == "index":
            at = substitute(e.meta, mapping)
            return scalar.index(at) if isinstance(at, Expr) else scalar.const(at, e.dtype)
        if e.op == "check_index":
            size = substitute(e.meta[0], mapping)
            return scalar.check_index(e.args[0], size, e.meta[1])
        return e

    def expression(e: E) -> E:
        return rewrite_expr(e, node, memo)

    return _map_fields(part, expression, index, lambda axis: axis)


def rename_axes(part: Any, fresh: Callable[[ir.Axis], ir.Axis]) -> Any:
    """A part with every axis it binds replaced by `fresh(axis)` (a copy may then stand beside it).

    `fresh` is asked once per axis and keeps the extent."""
    made: dict[ir.Axis, ir.Axis] = {}
    for axis in bound_axes(part):
        made.setdefault(axis, fresh(axis))
    renamed = substitute_axes(part, {a.name: b.var for a, b in made.items()})
    return _map_fields(renamed, lambda e: e, lambda at: at, lambda axis: made.get(axis, axis))


def bound_axes(part: Any) -> list[ir.Axis]:
    """Every axis bound anywhere in a part, outermost first."""
    if isinstance(part, ir.Axis):
        return [part]
    if isinstance(part, tuple):
        return [axis for item in part for axis in bound_axes(item)]
    if isinstance(part, _PARTS):
        return [a for f in dataclasses.fields(part) for a in bound_axes(getattr(part, f.name))]
    return []


_PARTS = (
    ir.Program, ir.Grid, ir.DotGrid, ir.AttentionGrid, ir.ScatterGrid, ir.Map, ir.Reduce,
    ir.ReduceItem, ir.Scan, ir.Sort, ir.Loop, ir.Store,
)  # fmt: skip


def _map_fields(
    part: Any,
    expression: Callable[[E], E],
    index: Callable[[Index], Index],
    axis: Callable[[ir.Axis], ir.Axis],
) -> Any:
    """A copy with the functions applied to every E, offset and axis; itself when nothing changed.

    Buffers, Locals, Params and size variables are left alone (their sizes hold no axes)."""
    if isinstance(part, E):
        return expression(part)
    if isinstance(part, ir.Axis):
        return axis(part)
    if isinstance(part, tuple):
        items = tuple(_map_fields(p, expression, index, axis) for p in part)
        same = all(a is b for a, b in zip(items, part, strict=True))
        return part if same else items
    if not isinstance(part, _PARTS):
        return part
    changed = {}
    for f in dataclasses.fields(part):
        if f.name in ("buffers", "params", "sizes", "sites"):
            continue
        old = getattr(part, f.name)
        new = index(old) if isinstance(old, Expr) else _map_fields(old, expression, index, axis)
        if new is not old:
            changed[f.name] = new
    return dataclasses.replace(part, **changed) if changed else part
