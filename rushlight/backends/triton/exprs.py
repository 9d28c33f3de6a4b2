"""Expressions of thread programs as text over blocks: one element per thread of the group.

In: expressions, which names hold blocks (`varying`), and the mask under which they are computed.
Out: as `ExprPrinter`. Always true: what does not depend on the thread is a scalar; memory is read
only where the mask is true.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.backends.cfamily.exprs import ExprPrinter, bare
from rushlight.backends.cfamily.helpers import Helper
from rushlight.backends.triton.language import Triton, is_literal
from rushlight.base.dtypes import int64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_walk import variables


class LaneExprs(ExprPrinter):
    language: Triton

    def __init__(self, language: Triton, names: Callable[[], str]) -> None:
        super().__init__(language, names)
        self.varying: set[str] = set()
        self.mask = ""
        self._known: dict[E, bool] = {}
        self._first: dict[str, bool] = {}
        self._called: dict[str, str] = {}

    # what depends on the thread -----------------------------------------------------------------

    def know(self, name: str, varies: bool) -> str:
        """A variable is defined, and depends on the thread or does not. What it is called in text:
        a name that was a block stays one, as loops want it."""
        (self.varying.add if varies else self.varying.discard)(name)
        self._known.clear()
        is_same = self._first.setdefault(name, varies) == varies
        self._called[name] = name if is_same else f"{name}_{'each' if varies else 'all'}"
        return self._called[name]

    def called(self, name: str) -> str:
        return self._called.get(name, name)

    def _variable(self, var: Var, texts: dict[E, str]) -> str:
        return super()._variable(var, texts) if var.kind == "value" else self.called(var.name)

    def _leaf(self, node: E, args: list[str], texts: dict[E, str]) -> str:
        return self.called(node.meta) if node.op == "param" else super()._leaf(node, args, texts)

    def under(self, mask: str) -> None:
        """What follows is done where the mask is true; "": by all threads."""
        self.mask = mask
        self._known.clear()

    def varies(self, value: E | int | Expr) -> bool:
        if not isinstance(value, E):
            return any(self._variable_varies(var) for var in variables(value).values())
        for node in s.topological((value,)):
            if node not in self._known:
                self._known[node] = self._node_varies(node)
        return self._known[value]

    def _node_varies(self, node: E) -> bool:
        if node.op == "param":
            return node.meta in self.varying
        if node.op == "index" and self.varies_at(node.meta):
            return True
        if node.op == "load" and (self.mask or self.varies_at(node.meta[1])):
            return True  # where threads parted ways, an address may be good for some alone
        return any(self._known[arg] for arg in node.args)

    def varies_at(self, at: int | Expr) -> bool:
        return any(self._variable_varies(var) for var in variables(at).values())

    def _variable_varies(self, var: object) -> bool:
        if var.kind == "value":  # type: ignore[attr-defined]
            return self.varies(var.payload)  # type: ignore[attr-defined]
        return var.name in self.varying  # type: ignore[attr-defined]

    # text ---------------------------------------------------------------------------------------

    def _render(self, node: E, texts: dict[E, str]) -> str:
        if node.op == "select" and all(is_literal(texts[a]) for a in node.args[1:]):
            condition, a, b = (texts[arg] for arg in node.args)
            return self.language.select(condition, self.language.typed(a, node.dtype), b)
        return super()._render(node, texts)

    def _load(self, node: E, args: list[str], texts: dict[E, str]) -> str:
        memory, at = node.meta
        where = bare(self.index(at, texts))
        is_block = self.varies(node)
        conditions = [bare(args[0])] if args else []
        if self.mask:
            conditions.insert(0, self.mask)
        place = self.place(memory.name, where, at, is_block)
        masked = f", mask={' & '.join(f'({c})' for c in conditions)}" if conditions else ""
        if conditions:
            masked = masked if len(conditions) > 1 else f", mask={conditions[0]}"
        if memory.dtype.kind != "bool" and args:
            return f"tl.load({place}{masked}, other={bare(args[1])})"
        element = f"tl.load({place}{masked}{', other=0' if masked else ''})"
        if memory.dtype.kind == "bool":
            element = f"({element} != 0)"
            return self.language.select(*args[:1], element, args[1]) if args else element
        return element

    def place(self, name: str, text: str, at: int | Expr, is_block: bool) -> str:
        """The address of an element; a block of them where the index alone does not say so."""
        if is_block and not self.varies_at(at):
            text = f"{text} + thread_id * 0"
        return f"{name} + ({text})"

    def _check(self, node: E, value: str, texts: dict[E, str]) -> str:
        """The status is written where an index is out of range; then it is 0."""
        size, site = node.meta
        self.checks = True
        limit, name = bare(self.index(size, texts)), self.names()
        self.lines.append(f"{name} = tl.cast({bare(value)}, tl.int64)")
        bad = f"({name} < 0) | ({name} >= {limit})"
        if self.mask and self.varies(node):
            bad = f"{self.mask} & ({bad})"
        place = self.place("status", "0", 0, self.varies(node))
        self.lines.append(f"tl.store({place}, {self.language.typed(str(site), int64)}, mask={bad})")
        safe = f"tl.where(({name} < 0) | ({name} >= {limit}), 0, {name})"
        return safe if node.dtype is int64 else self.language.cast(safe, node.dtype)

    def _call(self, helper: Helper, *args: str) -> str:
        typed = [
            self.language.typed(arg, self.language.carrier(parameter.dtype))
            for arg, parameter in zip(args, helper.parameters, strict=True)
        ]
        return super()._call(helper, *typed)
