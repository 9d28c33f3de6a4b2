"""Changing the expressions of tile programs; the tools of every pass over them.

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
    return _map_fields(program, fn)


# What grids are made of, besides expressions, axes, buffers and tiles.
PARTS = (
    ir.Program, ir.Grid, ir.DotGrid, ir.AttentionGrid, ir.ScatterGrid, ir.Map, ir.Reduce,
    ir.ReduceItem, ir.Scan, ir.Sort, ir.Loop, ir.Store, ir.Product, ir.Runs, ir.PairSum,
    ir.PairBins, ir.Softmax,
)  # fmt: skip


def _map_fields(part: Any, fn: Callable[[E], E]) -> Any:
    """A copy with `fn` applied to every E and to those in offsets; itself when nothing changed.

    Buffers, Locals, Params, axes and size variables are left alone (they hold no values)."""
    if isinstance(part, E):
        return fn(part)
    if isinstance(part, tuple):
        items = tuple(_map_fields(p, fn) for p in part)
        same = all(a is b for a, b in zip(items, part, strict=True))
        return part if same else items
    if not isinstance(part, PARTS):
        return part
    changed = {}
    for f in dataclasses.fields(part):
        if f.name in ("buffers", "params", "sizes", "sites"):
            continue
        old = getattr(part, f.name)
        new = map_index(old, fn) if isinstance(old, Expr) else _map_fields(old, fn)
        if new is not old:
            changed[f.name] = new
    return dataclasses.replace(part, **changed) if changed else part
