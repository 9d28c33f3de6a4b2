"""Runs one tile program: grids in order, statements in order, all instances of a block at once.

Instances are independent, so a statement may run for every instance before the next statement
starts. A grid is cut into blocks of instances, so that no domain has many more than BLOCK points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.backends.interp import folds
from rushlight.backends.interp.attention import binned, online_softmax, products, weighted_sums
from rushlight.backends.interp.evaluate import evaluate
from rushlight.backends.interp.fma import fma
from rushlight.backends.interp.memory import Memory
from rushlight.backends.interp.points import Points, index_value, root_points
from rushlight.compiler.tile import ir
from rushlight.ir.scalar import E, index_values
from rushlight.ir.symint import Expr
from rushlight.ir.symint_walk import variables

BLOCK = 1 << 20


def run_program(
    program: ir.Program,
    arrays: Sequence[np.ndarray],
    sizes: Mapping[str, int],
    params: Mapping[str, Any],
    races: bool = False,
) -> int:
    """Run a program on flat arrays (one per buffer). Gives the status word: 0, or the site of the
    first failed index check. `races`: also check that instances are independent."""
    return _Run(program, Memory(program, arrays, races), sizes, params).run()


class _Run:
    def __init__(
        self,
        program: ir.Program,
        memory: Memory,
        sizes: Mapping[str, int],
        params: Mapping[str, Any],
    ) -> None:
        self.program, self.memory, self.params = program, memory, params
        self.top = root_points(sizes)
        self.status = 0

    def run(self) -> int:
        for number, grid in enumerate(self.program.grids):
            self.memory.begin_grid(number)
            if isinstance(grid, ir.DotGrid):
                self.dot(grid)
            elif isinstance(grid, ir.AttentionGrid):
                self.attention(grid)
            elif isinstance(grid, ir.ScatterGrid):
                self.scatter(grid)
            else:
                self.grid(grid)
        return self.status

    def grid(self, grid: ir.Grid) -> None:
        points, _ = self.top.over(grid.axes)
        if not points.count:
            return
        points = Points(points.env, points.count, np.arange(points.count))
        step = max(1, BLOCK // max(1, self._work(grid.body, points)))
        for start in range(0, points.count, step):
            self.memory.begin_instances(start)
            block = points.take(np.arange(start, min(start + step, points.count)))
            self.body(grid.body, block)

    def _work(self, body: tuple[ir.Statement, ...], points: Points) -> int:
        """Points of the largest statement domain of the first instance."""
        first = points.take(np.zeros(1, np.int64))
        most = 1
        for statement in body:
            if isinstance(statement, ir.Loop):
                inner = first.bind(statement.axis.name, np.zeros(1, np.int64))
                most = max(most, self._work(statement.body, inner))
            else:
                count, here = 1, first
                for axis in _axes_of(statement):
                    count *= max(1, int(here.extent(axis)[0]))
                    here = here.bind(axis.name, np.zeros(1, np.int64))
                most = max(most, count)
        return most

    # statements ---------------------------------------------------------------------------------

    def body(self, body: tuple[ir.Statement, ...], points: Points) -> None:
        for statement in body:
            if isinstance(statement, ir.Map):
                self.stores(statement.stores, points.over(statement.axes)[0])
            elif isinstance(statement, ir.Reduce):
                self.reduce(statement, points)
            elif isinstance(statement, ir.Scan):
                self.scan(statement, points)
            elif isinstance(statement, ir.Sort):
                self.sort(statement, points)
            else:
                self.loop(statement, points)

    def loop(self, loop: ir.Loop, points: Points) -> None:
        extent = points.extent(loop.axis)
        for turn in range(int(extent.max(initial=0))):
            active = points.take(np.flatnonzero(extent > turn))
            self.body(loop.body, active.bind(loop.axis.name, np.full(active.count, turn)))

    def stores(self, stores: tuple[ir.Store, ...], points: Points, *accs: np.ndarray) -> None:
        """All values of a domain are computed before the first is stored."""
        roots = [store.value for store in stores]
        roots += [store.mask for store in stores if store.mask is not None]
        known: dict[E, np.ndarray] = {}
        self.values(roots, points, known, accs)
        ready = []
        for store in stores:
            value, at = known[store.value], self.offset(store.at, points, known)
            where = points
            if store.mask is not None:
                chosen = np.flatnonzero(_full(known[store.mask], points.count))
                value, at, where = (
                    _full(value, points.count)[chosen],
                    at[chosen],
                    points.take(chosen),
                )
            ready.append((store.dest, at, _full(value, where.count), where))
        for dest, at, value, where in ready:
            self.memory.write(dest, at, value, where)

    def reduce(self, statement: ir.Reduce, points: Points) -> None:
        outer, _ = points.over(statement.axes)
        inner, rows = outer.over(statement.over)
        lengths = np.bincount(rows, minlength=outer.count)
        known: dict[E, np.ndarray] = {}
        values = self.values([item.value for item in statement.items], inner, known)
        for item, value in zip(statement.items, values, strict=True):
            flat = _full(value, inner.count)
            result = folds.reduce_rows(item.kind, statement.order, flat, lengths)
            if item.finish is not None:
                (result,) = self.values([item.finish], outer, {}, (result,))
            result = _full(result, outer.count)
            self.memory.write(item.dest, self.offset(item.at, outer, {}), result, outer)

    def scan(self, statement: ir.Scan, points: Points) -> None:
        outer, _ = points.over(statement.axes)
        inner, rows = outer.over((statement.over,))
        lengths = np.bincount(rows, minlength=outer.count)
        (value,) = self.values([statement.value], inner, {})
        result = folds.scan_rows(statement.kind, _full(value, inner.count), lengths)
        self.memory.write(statement.dest, self.offset(statement.at, inner, {}), result, inner)

    def sort(self, statement: ir.Sort, points: Points) -> None:
        inner, rows = points.over((statement.over,))
        lengths = np.bincount(rows, minlength=points.count)
        (key,) = self.values([statement.key], inner, {})
        order = folds.argsort_rows(_full(key, inner.count), lengths, statement.descending)
        if statement.first is not None:
            some, kept = points.over((statement.stored,))
            starts = np.cumsum(lengths) - lengths
            order = order[starts[kept] + some.env[statement.over.name]]
            inner = some
        self.memory.write(statement.dest, self.offset(statement.at, inner, {}), order, inner)

    # grids with an algorithm of their own -------------------------------------------------------

    def dot(self, grid: ir.DotGrid) -> None:
        """One fused multiply-add per k and output element, k ascending."""
        lead, _ = self.top.over(grid.batch)
        lead = Points(lead.env, lead.count, np.arange(lead.count))
        k = int(self.top.extent(grid.k)[0])
        m, n = int(self.top.extent(grid.m)[0]), int(self.top.extent(grid.n)[0])
        a = self._operand(grid.a, lead, grid.m, grid.k, grid.acc_dtype).reshape(lead.count, m, k)
        b = self._operand(grid.b, lead, grid.k, grid.n, grid.acc_dtype).reshape(lead.count, k, n)
        acc = np.zeros((lead.count, m, n), grid.acc_dtype.np)
        with np.errstate(all="ignore"):
            for i in range(k):
                left, right = a[:, :, i, None], b[:, i, None, :]
                if grid.acc_dtype.is_floating_point:
                    acc = fma(left, right, acc)
                else:
                    acc = acc + left * right
        points, _ = lead.over((grid.m, grid.n))
        points = Points(points.env, points.count, np.arange(points.count))
        self.stores(grid.stores, points, acc.ravel())

    def attention(self, grid: ir.AttentionGrid) -> None:
        lead, _ = self.top.over(grid.batch)
        lead = Points(lead.env, lead.count, np.arange(lead.count))
        pairs = lead.over((grid.l, grid.s))[0]
        shape = (lead.count, *(int(self.top.extent(axis)[0]) for axis in (grid.l, grid.s)))

        def operand(value: E, *axes: ir.Axis) -> np.ndarray:
            sizes = (int(self.top.extent(axis)[0]) for axis in axes)
            return self._operand(value, lead, *axes, grid.acc_dtype).reshape(lead.count, *sizes)

        def at_kept(value: E, accs: list[np.ndarray], fill: float) -> np.ndarray:
            chosen = np.flatnonzero(kept)
            found = np.full(pairs.count, fill, value.dtype.np)
            some = [acc[chosen] for acc in accs]
            found[chosen] = self.values([value], pairs.take(chosen), {}, some)[0]
            return found.reshape(shape)

        with np.errstate(all="ignore"):
            kept = self._kept(grid, pairs, shape)
            accs = [
                products(operand(p.a, grid.l, p.k), operand(p.b, grid.s, p.k)).ravel()
                for p in grid.products
            ]
            if grid.softmax is not None:
                scores = at_kept(grid.softmax.score, accs, -np.inf)
                values = [operand(x.other, grid.s, x.n) for x in grid.sums]  # type: ignore[arg-type]
                self._softmax(grid, lead, scores, kept, values)
            else:
                for item in grid.sums:
                    weights = at_kept(item.weight, accs, 0.0)
                    self._pair_sum(grid, item, lead, weights, kept, operand)
                for bins in grid.bins:
                    weights = at_kept(bins.weight, accs, 0.0)
                    places = at_kept(bins.bin, accs, -1)
                    count = int(self.top.extent(bins.n)[0])
                    found = binned(weights, places, count)
                    self._results(bins.stores, lead, (bins.n,), found)

    def _kept(self, grid: ir.AttentionGrid, pairs: Points, shape: tuple[int, ...]) -> np.ndarray:
        """The pairs that mask and causality keep."""
        kept = np.ones(shape, bool)
        if grid.keep is not None:
            (keep,) = self.values([grid.keep], pairs, {})
            kept = _full(keep, pairs.count).reshape(shape)
        return kept & np.tri(*shape[1:], dtype=bool) if grid.causal else kept

    def _softmax(
        self, grid: ir.AttentionGrid, lead: Points, scores: np.ndarray, kept: np.ndarray,
        values: list[np.ndarray],
    ) -> None:  # fmt: skip
        softmax = grid.softmax
        assert softmax is not None

        def at_each(function: E) -> Callable[[np.ndarray], np.ndarray]:
            return lambda x: self.values([function], self.top, {}, (x,))[0]

        found, top, total = online_softmax(scores, kept, values, at_each(softmax.exp))
        lse = top + at_each(softmax.log)(total)
        self._results(softmax.lse_stores, lead, (grid.l,), lse)
        self._results(softmax.top_stores, lead, (grid.l,), top)
        for item, result in zip(grid.sums, found, strict=True):
            self._results(item.stores, lead, (grid.l, item.n), result)  # type: ignore[arg-type]

    def _pair_sum(
        self, grid: ir.AttentionGrid, item: ir.PairSum, lead: Points, weights: np.ndarray,
        kept: np.ndarray, operand: Callable[..., np.ndarray],
    ) -> None:  # fmt: skip
        owner, inner = (grid.l, grid.s) if item.over == "s" else (grid.s, grid.l)
        if item.over == "l":
            weights, kept = (np.swapaxes(x, 1, 2) for x in (weights, kept))
        other = None if item.other is None else operand(item.other, inner, item.n)
        axes = (owner,) if item.n is None else (owner, item.n)
        self._results(item.stores, lead, axes, weighted_sums(weights, kept, other))

    def _results(
        self, stores: tuple[ir.Store, ...], lead: Points, axes: tuple[ir.Axis, ...], x: np.ndarray
    ) -> None:
        points, _ = lead.over(axes)
        points = Points(points.env, points.count, np.arange(points.count))
        self.stores(stores, points, x.ravel())

    def _operand(
        self, operand: E, lead: Points, first: ir.Axis, second: ir.Axis, dtype: Any
    ) -> np.ndarray:
        points, _ = lead.over((first, second))
        (value,) = self.values([operand], points, {})
        return _full(value, points.count).astype(dtype.np)

    def scatter(self, grid: ir.ScatterGrid) -> None:
        """numpy's `ufunc.at` applies updates one by one in order; so does assignment."""
        updates, _ = self.top.over((grid.update,))
        (row,) = self.values([grid.row], updates, {})
        row = _full(row, updates.count)
        points, source = updates.over((grid.width,))
        width = int(self.top.extent(grid.width)[0])
        (value,) = self.values([grid.value], points, {})
        limit = int(index_value(grid.rows, self.top.env))
        if ((row < 0) | (row >= limit)).any():
            raise IndexError(f"{self.memory.place}: a row is outside of [0, {limit})")
        at = row[source] * width + np.asarray(points.env[grid.width.name])
        target, value = self.memory.arrays[grid.dest], _full(value, points.count)
        ops = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
        with np.errstate(all="ignore"):
            if grid.kind == "set":
                target[at] = value
            else:
                ops[grid.kind].at(target, at, value)

    # expressions --------------------------------------------------------------------------------

    def values(
        self,
        roots: list[E],
        points: Points,
        known: dict[E, np.ndarray],
        accs: Sequence[np.ndarray] = (),
    ) -> list[np.ndarray]:
        def leaf(node: E) -> np.ndarray:
            if node.op == "param":
                return np.asarray(self.params[node.meta]).astype(node.dtype.np)
            if node.op == "index":
                return np.asarray(self.offset(node.meta, points, known))
            if node.op == "acc":
                return accs[node.meta]
            if node.op == "check_index":
                return self._check_index(node, points, known)
            return self._load(node, points, known)

        return evaluate(roots, leaf, known)

    def _load(self, node: E, points: Points, known: dict[E, np.ndarray]) -> np.ndarray:
        place, at = node.meta
        offset = self.offset(at, points, known)
        if not node.args:
            return self.memory.read(place, offset, points)
        mask = _full(known[node.args[0]], points.count)
        chosen = np.flatnonzero(mask)
        result = _full(known[node.args[1]], points.count).copy()
        result[chosen] = self.memory.read(place, offset[chosen], points.take(chosen))
        return result

    def _check_index(self, node: E, points: Points, known: dict[E, np.ndarray]) -> np.ndarray:
        size, site = node.meta
        value = known[node.args[0]]
        good = (value >= 0) & (value < self.offset(size, points, known).astype(value.dtype))
        if not self.status and not np.all(good):
            self.status = site
        return np.where(good, value, np.zeros((), value.dtype))

    def offset(self, at: int | Expr, points: Points, known: dict[E, np.ndarray]) -> np.ndarray:
        """An index expression at every point. Values inside it are evaluated when not yet known."""
        env = points.env
        inside = index_values(at)
        if inside:
            self.values([v for v in inside if v not in known], points, known)
            names = variables(at).items()
            held = {n: known[v.payload].astype(np.int64) for n, v in names if v.kind == "value"}
            env = {**env, **held}
        value = np.asarray(index_value(at, env), np.int64)
        return np.broadcast_to(value, (points.count,))


def _full(value: np.ndarray, count: int) -> np.ndarray:
    return np.broadcast_to(value, (count,))


def _axes_of(statement: Any) -> tuple[ir.Axis, ...]:
    if isinstance(statement, ir.Map):
        return statement.axes
    if isinstance(statement, ir.Reduce):
        return (*statement.axes, *statement.over)
    if isinstance(statement, ir.Scan):
        return (*statement.axes, statement.over)
    return (statement.over,)
