"""Thread programs as source text of a C-like language.

In: thread programs and a `Language`. Out: one source text: a prologue, the helper functions that
are used, the kernels. Always true: nothing here knows which language it is.

A kernel gets its buffers, then its scratch, then `numbers` (64-bit words: the program's sizes, its
parameters as bits in the low bytes, and for kernels with passes TURN, WIDTH, TURNS), then `status`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.exprs import ExprPrinter
from rushlight.backends.cfamily.helpers import Helper
from rushlight.backends.cfamily.language import Language
from rushlight.base.dtypes import DType, find_dtype, int64
from rushlight.compiler.tile.ir import Buffer, Param, Program
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_walk import variables


def print_programs(programs: Sequence[c.ThreadProgram], language: Language) -> str:
    """One source text for all kernels of all programs."""
    helpers: dict[str, Helper] = {}
    kernels = []
    for program in programs:
        for kernel in program.kernels:
            printer = KernelPrinter(program, kernel, language)
            kernels.append("\n".join(printer.run()))
            helpers.update(printer.exprs.used)
    functions = ["\n".join(_function(helper, language)) for helper in helpers.values()]
    return "\n\n".join([*filter(None, [language.prologue]), *functions, *kernels]) + "\n"


def _function(helper: Helper, language: Language) -> list[str]:
    names = (f"t_{i}" for i in count())
    lines, (value,) = ExprPrinter(language, lambda: next(names)).emit([helper.value])
    parameters = [(p.meta, p.dtype) for p in helper.parameters]
    head = language.function(helper.name, parameters, helper.value.dtype)
    return [head + " {", *(f"    {line}" for line in lines), f"    return {value};", "}"]


class KernelPrinter:
    """Prints one kernel."""

    def __init__(self, owner: c.ThreadProgram, kernel: c.Kernel, language: Language) -> None:
        self.owner, self.kernel, self.language = owner, kernel, language
        names = count()
        self.exprs = ExprPrinter(language, lambda: f"t_{next(names)}")
        self.lines: list[str] = []
        self.indent = 0

    def run(self) -> list[str]:
        kernel, language = self.kernel, self.language
        for line in language.kernel_head(kernel, self._buffers()):
            self.line(line)
        used = names_in(kernel.body, kernel)
        self.block(unpacked(self.owner.program, kernel, used, language.index))
        for line in language.group_head(kernel):
            self.line(line)
        for text in filter(None, map(language.array, kernel.arrays)):
            self.line(text)
        self.block(kernel.body)
        while self.indent:
            self.close()
        return self.lines

    def _buffers(self) -> list[tuple[str, DType, bool]]:
        written = c.written_in(self.kernel.body)
        memories = (*self.owner.program.buffers, *self.owner.scratch)
        return [(m.name, m.dtype, m in written) for m in memories]

    # lines --------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)
        if text.endswith("{"):
            self.indent += 1

    def close(self) -> None:
        self.indent -= 1
        self.lines.append("    " * self.indent + "}")

    def block(self, block: c.Block) -> None:
        for statement in block:
            getattr(self, _PRINT[type(statement)])(statement)

    def body(self, head: str, block: c.Block) -> None:
        self.line(head + " {")
        self.block(block)
        self.close()

    def texts(self, *roots: E | int | Expr) -> list[str]:
        lines, found = self.exprs.emit(roots)
        for line in lines:
            self.line(line)
        return found

    # statements ---------------------------------------------------------------------------------

    def bind(self, code: c.Bind) -> None:
        (value,) = self.texts(code.value)
        self.line(self.language.declare(self.language.index, code.var.name, value, False))

    def let(self, code: c.Let) -> None:
        values = self.texts(*(value for _, value in code.pairs))
        for (name, value), text in zip(code.pairs, values, strict=True):
            self.line(self.language.declare(value.dtype, name, text, code.changes))

    def set(self, code: c.Set) -> None:
        if len(code.pairs) > 1:
            # All values are ready before the first variable changes.
            temporary = [(self.exprs.names(), value) for _, value in code.pairs]
            self.let(c.Let(tuple(temporary)))
            for (name, _), (value, _) in zip(code.pairs, temporary, strict=True):
                self.line(f"{name} = {value};")
            return
        for name, value in code.pairs:
            self.line(f"{name} = {self.texts(value)[0]};")

    def put(self, code: c.Put) -> None:
        self.puts(c.Puts((code,)))

    def puts(self, code: c.Puts) -> None:
        stores = code.stores
        roots: list[E | int | Expr] = []
        for store in stores:
            roots += [store.value, store.at, *([] if store.mask is None else [store.mask])]
        texts = iter(self.texts(*roots))
        ready = []
        for store in stores:
            value, at = next(texts), next(texts)
            mask = None if store.mask is None else next(texts)
            if len(stores) > 1 and store.value.op not in ("const", "param"):
                name = self.exprs.names()
                self.line(self.language.declare(store.value.dtype, name, value, False))
                value = name
            ready.append((store.dest, at, value, mask))
        for dest, at, value, mask in ready:
            text = self.language.store(f"{dest.name}[{at}]", value, dest.dtype)
            if mask is None:
                self.line(text)
            else:
                self.line(f"if ({mask}) {{")
                self.line(text)
                self.close()

    def loop(self, code: c.For) -> None:
        start, stop, step = self.texts(code.start, code.stop, code.step)
        pragma = self.language.unroll if code.unroll else ""
        pragma = pragma or (self.language.independent if code.independent else "")
        if pragma:
            self.line(pragma)
        self.body(self.language.loop(code.var.name, start, stop, step), code.body)

    def repeat(self, code: c.While) -> None:
        lines, (condition,) = self.exprs.emit([code.condition])
        if not lines:
            self.body(f"while ({condition})", code.body)
            return
        self.line("while (true) {")
        for line in lines:
            self.line(line)
        self.line(f"if (!({condition})) {{")
        self.line("break;")
        self.close()
        self.block(code.body)
        self.close()

    def branch(self, code: c.If) -> None:
        (condition,) = self.texts(code.condition)
        self.body(f"if ({condition})", code.body)

    def barrier(self, code: c.Barrier) -> None:
        self.line(self.language.barrier())

    def sync(self, code: c.Sync) -> None:
        (at,) = self.texts(code.at)
        text = f"{self.language.sync(code.kind)}({code.memory.name} + {at})"
        if code.result is None:
            self.line(f"{text};")
        else:
            self.line(self.language.declare(self.language.index, code.result.name, text, False))

    def matrix(self, code: c.Matrix) -> None:
        (at,) = self.texts(code.at)
        for line in self.language.matrix(code, at):
            self.line(line)

    def note(self, code: c.Note) -> None:
        self.line(f"// {code.text}")


_PRINT = {
    c.Bind: "bind", c.Let: "let", c.Set: "set", c.Put: "put", c.Puts: "puts", c.For: "loop",
    c.While: "repeat", c.If: "branch", c.Barrier: "barrier", c.Sync: "sync", c.Matrix: "matrix",
    c.Note: "note",
}  # fmt: skip


# what a kernel's text needs before its body ------------------------------------------------------


@dataclass(frozen=True)
class _Names:
    """Names that a kernel uses: variables of indices, parameters."""

    indices: frozenset[str]
    params: frozenset[str]


def unpacked(program: Program, kernel: c.Kernel, used: _Names, index: DType) -> c.Block:
    """Sizes and parameters out of `numbers`."""
    numbers = Buffer("numbers", int64, 0)
    block: list[c.Code] = []
    names = [var.name for var in program.sizes]
    names += [param.name for param in program.params]
    if kernel.passes is not None:
        names += [var.name for var in c.PASS_NAMES]
    params = {param.name: param for param in program.params}
    for position, name in enumerate(names):
        word = s.load(numbers, position)
        if name in params and name in used.params:
            block.append(c.Let(((name, _from_word(word, params[name])),)))
        elif name not in params and name in used.indices:
            block.append(c.Bind(Var(name), s.as_index(word)))
    return tuple(block)


def _from_word(word: E, param: Param) -> E:
    """The value whose bits are the low bytes of a word."""
    dtype = param.dtype
    if not dtype.is_floating_point:
        return s.cast(word, dtype)
    whole = find_dtype(f"uint{8 * dtype.itemsize}")
    return s.bitcast(s.cast(word, whole), dtype)


def names_in(block: c.Block, kernel: c.Kernel) -> _Names:
    indices: set[str] = set(variables(kernel.groups))
    params: set[str] = set()
    for value in c.values_in(block):
        if not isinstance(value, E):
            indices |= set(variables(value))
            value = s.index(value)
        for node in topological((value,)):
            if node.op == "param":
                params.add(node.meta)
            elif node.op == "load":
                indices |= set(variables(node.meta[1]))
            elif node.op == "index":
                indices |= set(variables(node.meta))
            elif node.op == "check_index":
                indices |= set(variables(node.meta[0]))
    return _Names(frozenset(indices), frozenset(params))
