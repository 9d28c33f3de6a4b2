"""The text of an AttentionGrid, printed and read: a block per hole, in a fixed order.

attention float32 [i0:2, i1:8] l i2:70 s i3:70 causal {
  product k i4:64 {
    t0 = q[i0*35840 + i1*4480 + i2*64 + i4]
    t1 = k[i0*35840 + i1*4480 + i3*64 + i4]
    is t0, t1
  }
  keep {
    ...
    is t3
  }
  runs l 128 64 32 32 row i5:1 run i6:3 {
    ...
    is t0, t1, t2, t3, t4
  }
  softmax {
    ...
    is t0, t1, t2
  }
  lse {
    lse[i0*560 + i1*70 + i2] = acc:float32
  }
  sum s n i7:64 {
    is acc:float32, t0
    out[...] = acc:float32
  }
}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.compiler.tile import ir
from rushlight.ir.scalar import E


class Printer:
    """Prints one grid with the tools of text._Printer."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def grid(self, grid: ir.AttentionGrid) -> None:
        """Opens the grid's own block; the caller closes it."""
        text = self.text
        batch, rows, keys = text.bind(grid.batch), text.bind((grid.l,)), text.bind((grid.s,))
        causal = " causal" if grid.causal else ""
        text.open(f"attention {grid.acc_dtype.name} [{batch}] l {rows} s {keys}{causal}")
        for product in grid.products:
            with self.block("product k", (product.k,)):
                self.holes(product.a, product.b)
        if grid.keep is not None:
            with self.block("keep"):
                self.holes(grid.keep)
        for side, runs in (("l", grid.runs_l), ("s", grid.runs_s)):
            if runs is not None:
                self.runs(side, runs)
        if grid.softmax is not None:
            self.softmax(grid.softmax)
        for item in grid.sums:
            with self.block(f"sum {item.over} n", () if item.n is None else (item.n,)):
                self.holes(item.weight, *(() if item.other is None else (item.other,)))
                text.stores(item.stores)
        for bins in grid.bins:
            with self.block("bins n", (bins.n,)):
                self.holes(bins.weight, bins.bin)
                text.stores(bins.stores)

    def runs(self, side: str, runs: ir.Runs) -> None:
        text, outer = self.text, self.text.scope
        text.enter(outer)
        row, run = text.bind((runs.row,)), text.bind((runs.run,))
        sizes = f"{runs.rows} {runs.tile} {runs.group} {runs.part}"
        text.open(f"runs {side} {sizes} row {row} run {run}")
        self.holes(runs.begin, runs.end, runs.first, runs.stop, runs.code)
        text.close()
        text.enter(outer)

    def softmax(self, softmax: ir.Softmax) -> None:
        with self.block("softmax"):
            self.holes(softmax.score, softmax.exp, softmax.log)
        for name in ("lse", "top"):
            stores = getattr(softmax, f"{name}_stores")
            if stores:
                with self.block(name):
                    self.text.stores(stores)

    def holes(self, *holes: E) -> None:
        self.text.define(holes)
        self.text.line(f"is {', '.join(self.text.values[hole] for hole in holes)}")

    @contextmanager
    def block(self, head: str, axes: Sequence[ir.Axis] = ()) -> Iterator[None]:
        text, outer = self.text, self.text.scope
        text.enter(outer)
        text.open(f"{head} {text.bind(axes)}".rstrip())
        yield
        text.close()
        text.enter(outer)


class Reader:
    """Reads one grid with the tools of text_parse._Parser."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def grid(self) -> ir.AttentionGrid:
        text = self.text
        dtype, batch = text.dtype(), text.bracketed()
        text.take("l")
        (rows,) = text.axes("s")
        keys, causal = self.keys()
        found: dict[str, list] = {"product": [], "sum": [], "bins": []}
        one: dict[str, Any] = {}
        while text.next_row() != "}":
            word, outer = text.take(), text.scope
            text.values = {}
            if word in found:
                found[word].append(getattr(self, word)())
            elif word == "runs":
                side = text.take()
                one[f"runs_{side}"] = self.runs()
            else:
                text.take("{")
                if word in ("lse", "top"):
                    one[word] = text.stores()
                    text.take("}")
                else:
                    one[word] = self.ended()
            text.scope = outer
        softmax = None
        if "softmax" in one:
            score, exp, log = one["softmax"]
            softmax = ir.Softmax(score, exp, log, one.get("lse", ()), one.get("top", ()))
        (keep,) = one.get("keep", (None,))
        return ir.AttentionGrid(
            batch, rows, keys, tuple(found["product"]), keep, causal,
            one.get("runs_l"), one.get("runs_s"), softmax, tuple(found["sum"]), dtype,
            tuple(found["bins"]),
        )  # fmt: skip

    def keys(self) -> tuple[ir.Axis, bool]:
        """The axis of keys, and whether `causal` follows."""
        text = self.text
        axis = text.axis()
        causal = text.accept("causal")
        text.take("{")
        return axis, causal

    def product(self) -> ir.Product:
        self.text.take("k")
        (k,) = self.text.axes("{")
        return ir.Product(k, *self.ended())

    def runs(self) -> ir.Runs:
        text = self.text
        rows, tile, group, part = (int(text.take()) for _ in range(4))
        text.take("row")
        (row,) = text.axes("run")
        (run,) = text.axes("{")
        return ir.Runs(rows, tile, group, part, row, run, *self.ended())

    def sum(self) -> ir.PairSum:
        over = self.text.take()
        self.text.take("n")
        axes = self.text.axes("{")
        weight, *other = self.holes()
        stores = self.text.stores()
        self.text.take("}")
        n = axes[0] if axes else None
        return ir.PairSum(over, weight, n, other[0] if other else None, stores)

    def bins(self) -> ir.PairBins:
        self.text.take("n")
        (n,) = self.text.axes("{")
        weight, place = self.holes()
        stores = self.text.stores()
        self.text.take("}")
        return ir.PairBins(weight, place, n, stores)

    def ended(self) -> list[E]:
        holes = self.holes()
        self.text.next_row()
        self.text.take("}")
        return holes

    def holes(self) -> list[E]:
        text = self.text
        text.lines()
        text.take("is")
        found = [text.atom()]
        while text.accept(","):
            found.append(text.atom())
        return found
