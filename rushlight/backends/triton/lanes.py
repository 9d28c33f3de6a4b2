"""Thread programs as Triton kernels: the threads of a group are the elements of blocks.

In: a thread program. Out: the text of its kernels. Always true: a variable is a scalar, or a block
with an element per thread; where threads part ways all statements run for all, under a mask.

    before   for (long i = thread_id; i < n; i += 64) { y[i] = x[i] + 1; }
    after    for turn_1 in range(0, n, 64):
                 i = turn_1 + thread_id
                 mask_2 = i < n
                 tl.store(y + i, tl.load(x + i, mask=mask_2, other=0) + 1.0, mask=mask_2)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.bounds import at_most
from rushlight.backends.cfamily.exprs import bare
from rushlight.backends.cfamily.helpers import Helper
from rushlight.backends.cfamily.text import KernelPrinter
from rushlight.backends.triton.exprs import LaneExprs
from rushlight.backends.triton.language import Triton
from rushlight.base.dtypes import DType
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var

THREAD = c.THREAD.name


class LanePrinter(KernelPrinter):
    """Prints one kernel."""

    exprs: LaneExprs

    def __init__(self, owner: c.ThreadProgram, kernel: c.Kernel, language: Triton) -> None:
        super().__init__(owner, kernel, language)
        names = count()
        self.exprs = LaneExprs(language, lambda: f"t_{next(names)}")
        self.exprs.know(THREAD, True)
        self.triton = language
        self._passed_on = _written_and_read(kernel.body)

    # lines --------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)
        if text.endswith(":"):
            self.indent += 1

    def close(self) -> None:
        self.indent -= 1

    def body(self, head: str, block: c.Block) -> None:
        self.line(f"{head}:")
        self.block(block)
        self.close()

    def note(self, code: c.Note) -> None:
        self.line(f"# {code.text}")

    @contextmanager
    def masked(self, mask: str) -> Iterator[None]:
        """Statements in here are those of the threads of a mask (a name) alone."""
        before = self.exprs.mask
        self.exprs.under(mask)
        yield
        self.exprs.under(before)

    def named_mask(self, condition: str) -> str:
        """A name for a condition, in what is already masked."""
        name, outer = self.exprs.names(), self.exprs.mask
        self.line(f"{name} = {f'{outer} & ({condition})' if outer else condition}")
        return name

    # variables ----------------------------------------------------------------------------------

    def bind(self, code: c.Bind) -> None:
        (value,) = self.texts(code.value)
        name = self.exprs.know(code.var.name, self.exprs.varies(code.value))
        self.line(f"{name} = {self.triton.typed(value, self.language.index)}")

    def let(self, code: c.Let) -> None:
        values = self.texts(*(value for _, value in code.pairs))
        varying = [self.exprs.varies(value) for _, value in code.pairs]
        for (name, value), text, varies in zip(code.pairs, values, varying, strict=True):
            if code.changes and not varies:
                text = self._spread(text, value.dtype)
            called = self.exprs.know(name, varies or code.changes)
            self.line(f"{called} = {self.triton.typed(text, value.dtype)}")

    def _spread(self, text: str, dtype: DType) -> str:
        """A scalar as a block."""
        kind = self.triton.value_type(dtype)
        return f"tl.full(({self.kernel.threads},), {bare(text)}, {kind})"

    def set(self, code: c.Set) -> None:
        values = self.texts(*(value for _, value in code.pairs))
        if len(code.pairs) > 1:  # all are ready before the first changes
            names = [self.exprs.names() for _ in values]
            for name, text, (_, value) in zip(names, values, code.pairs, strict=True):
                self.line(f"{name} = {self.triton.typed(text, value.dtype)}")
            values = names
        for (name, value), text in zip(code.pairs, values, strict=True):
            name = self.exprs.called(name)
            if self.exprs.mask:
                text = f"tl.where({self.exprs.mask}, {bare(text)}, {name})"
            elif not self.exprs.varies(value):
                text = self._spread(text, value.dtype)
            self.line(f"{name} = {text}")

    # memory -------------------------------------------------------------------------------------

    def puts(self, code: c.Puts) -> None:
        roots: list[E | int | Expr] = []
        for store in code.stores:
            roots += [store.value, store.at, *([] if store.mask is None else [store.mask])]
        texts = iter(self.texts(*roots))
        lines = []
        for store in code.stores:
            value, at = next(texts), next(texts)
            mask = None if store.mask is None else next(texts)
            if len(code.stores) > 1 and store.value.op not in ("const", "param"):
                name = self.exprs.names()
                self.line(f"{name} = {self.triton.typed(value, store.value.dtype)}")
                value = name
            lines.append(self._store(store, value, at, mask))
        # An element may be another thread's in the next statement: the group waits.
        waits = any(store.dest in self._passed_on for store in code.stores)
        for line in [self.language.barrier()] * waits + lines + [self.language.barrier()] * waits:
            self.line(line)

    def _store(self, store: c.Put, value: str, at: str, mask: str | None) -> str:
        exprs = self.exprs
        parts = [exprs.mask] if exprs.mask else []
        parts += [] if mask is None else [f"({mask})"]
        by_mask = bool(exprs.mask) or (store.mask is not None and exprs.varies(store.mask))
        is_block = by_mask or exprs.varies(store.value) or exprs.varies(store.at)
        place = exprs.place(store.dest.name, at, store.at, is_block)
        if store.dest.dtype.kind == "bool":
            value = f"tl.cast({self.triton.typed(value, store.dest.dtype)}, tl.uint8)"
        masked = f", mask={' & '.join(parts)}" if parts else ""
        return f"tl.store({place}, {self.triton.typed(value, store.dest.dtype)}{masked})"

    # ways ---------------------------------------------------------------------------------------

    def loop(self, code: c.For) -> None:
        if not any(map(self.exprs.varies, (code.start, code.stop, code.step))):
            self._for_all(code)
        elif _is_thread(code.start) and code.step == self.kernel.threads:
            self._over_threads(code)
        else:
            self._apart(code)

    def _for_all(self, code: c.For) -> None:
        """Every thread takes every turn."""
        start, stop, step = self.texts(code.start, code.stop, code.step)
        turn = self.exprs.names()
        self.line(f"for {turn} in range({start}, {stop}, {step}):")
        self._turn(code.var, f"tl.cast({turn}, tl.int64)", False, "", code.body)

    def _over_threads(self, code: c.For) -> None:
        """A turn is one element for each thread; often there is only one turn."""
        threads, stop = self.kernel.threads, code.stop
        (last,) = self.texts(stop)
        most = at_most(stop)
        is_full = isinstance(stop, int) and stop > 0 and stop % threads == 0
        inside = "" if is_full else last
        if isinstance(most, int) and most <= threads:
            self._turn(code.var, THREAD, True, inside, code.body, False)
            return
        turn = self.exprs.names()
        self.line(f"for {turn} in range(0, {last}, {threads}):")
        self._turn(code.var, f"{turn} + {THREAD}", True, inside, code.body)

    def _apart(self, code: c.For) -> None:
        """Threads have loops of their own: as many turns as the longest needs."""
        start, stop, step = self.texts(code.start, code.stop, code.step)
        first, end, turns, turn = (self.exprs.names() for _ in range(4))
        index = self.language.index
        self.line(f"{first} = {self.triton.typed(start, index)}")
        self.line(f"{end} = {self.triton.typed(stop, index)}")
        left = f"({end} - {first} + ({step} - 1)) // {step}"
        if self.exprs.mask:
            left = f"tl.where({self.exprs.mask}, {left}, 0)"
        self.line(f"{turns} = largest({left})")
        self.line(f"for {turn} in range(0, {turns}):")
        here = f"{first} + {turn} * {step}"
        if not self.exprs.varies(code.start) and not self.exprs.varies(code.step):
            here += f" + {THREAD} * 0"
        self._turn(code.var, here, True, end, code.body)

    def _turn(
        self, var: Var, value: str, varies: bool, stop: str, block: c.Block, in_loop: bool = True
    ) -> None:
        """One turn, for the threads whose variable lies below `stop`, if it is given."""
        name = self.exprs.know(var.name, varies)
        self.line(f"{name} = {value}")
        mask = self.named_mask(f"{name} < {stop}") if stop else self.exprs.mask
        with self.masked(mask):
            self.block(block)
        if in_loop:
            self.close()

    def repeat(self, code: c.While) -> None:
        alive = self.named_mask(self._condition(code.condition))
        self.line(f"while largest(tl.cast({alive}, tl.int32)) > 0:")
        with self.masked(alive):
            self.block(code.body)
            self.line(f"{alive} = {alive} & ({self._condition(code.condition)})")
        self.close()

    def _condition(self, condition: E) -> str:
        (text,) = self.texts(condition)
        return text if self.exprs.varies(condition) else self._spread(text, condition.dtype)

    def branch(self, code: c.If) -> None:
        (condition,) = self.texts(code.condition)
        if not self.exprs.varies(code.condition):
            self.body(f"if {condition}", code.body)
            return
        mask = self.named_mask(condition)
        with self.masked(mask):
            self.block(code.body)


def _written_and_read(block: c.Block) -> set[c.Memory]:
    values = [v if isinstance(v, E) else s.index(v) for v in c.values_in(block)]
    read = {node.meta[0] for node in s.topological(values) if node.op == "load"}
    return read & {store.dest for store in c.stores_in(block)}


def _is_thread(value: int | Expr) -> bool:
    return isinstance(value, Expr) and value == c.THREAD + 0


def print_function(helper: Helper, language: Triton) -> list[str]:
    names = (f"t_{i}" for i in count())
    lines, (value,) = LaneExprs(language, lambda: next(names)).emit([helper.value])
    parameters = [(p.meta, p.dtype) for p in helper.parameters]
    head = language.function(helper.name, parameters, helper.value.dtype)
    return [f"{head}:", *(f"    {line}" for line in [*lines, f"return {value}"])]
