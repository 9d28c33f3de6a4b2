"""Graphs as text, and back.

    size T in 1..?
    %0 = buffer : f32[8, T]
    %1 = scalar 0.5 : f32[]
    %2 = mul(%0, %1) : f32[8, T]
    %3 = reduce_sum(%2, dims=(1,)) : f32[8]
    return %3

In: roots. Out: text in which nodes are numbered sources first, so equal graphs print equally (a
buffer's contents and a node's origin leave no trace). `parse_graph` gives nodes of the same
records, attributes, shapes and dtypes; its buffers are fresh leaves, or the ones it is given.
Attributes print as Python literals, `torch.<name>` for a dtype and `{T*2}` for a symbolic size;
what has no such form prints in angle brackets and cannot be read back.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS, COMPLEX, DType, find_dtype
from rushlight.ir.node import Node, buffer_node, const_node, make_node, scalar_node, topological
from rushlight.ir.opdef import find_op
from rushlight.ir.symint import Expr, Var
from rushlight.ir.symint_walk import variables
from rushlight.ir.text_expr import LineReader, ParseError, print_bounds, print_expr


def short_name(dtype: DType) -> str:
    """f32, bf16, i64, u8, c64, bool."""
    kinds = (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c"))
    for long, short in kinds:
        if dtype.name.startswith(long):
            return short + dtype.name.removeprefix(long)
    return dtype.name


_SHORT = {short_name(dtype): dtype for dtype in (*ALL_DTYPES, *COMPLEX, *BYTE_FLOATS)}


def to_text(roots: Sequence[Node]) -> str:
    """The graph below the roots."""
    order = topological(list(roots))
    numbers = {node: i for i, node in enumerate(order)}
    found: dict[str, Var] = {}
    for node in order:
        for size in (*node.shape, *_exprs(node.attrs)):
            found.update(variables(size))
    lines = [f"{v.kind} {v.name} in {print_bounds(v, _name)}" for v in found.values()]
    lines += [f"%{i} = {_node_text(node, numbers)}" for i, node in enumerate(order)]
    lines.append("return " + ", ".join(f"%{numbers[root]}" for root in roots))
    return "\n".join(lines) + "\n"


def node_text(node: Node) -> str:
    """One node in one line; sources are shown by what they are."""
    inner = [repr(source) for source in node.src] + _attr_texts(node)
    return f"{node.name}({', '.join(inner)}) : {type_text(node)}"


def _name(var: Var) -> str:
    return var.name


def _exprs(value: Any) -> list[Expr]:
    if isinstance(value, tuple):
        return [e for item in value for e in _exprs(item)]
    return [value] if isinstance(value, Expr) else []


def type_text(node: Node) -> str:
    """f32[8, T]"""
    shape = ", ".join(print_expr(size, _name) for size in node.shape)
    return f"{short_name(node.dtype)}[{shape}]"


def _node_text(node: Node, numbers: Mapping[Node, int]) -> str:
    if node.leaf == "buffer":
        return f"buffer : {type_text(node)}"
    if node.leaf:
        return f"{node.leaf} {_attr_text(node.attrs[0])} : {type_text(node)}"
    inner = [f"%{numbers[source]}" for source in node.src] + _attr_texts(node)
    return f"{node.name}({', '.join(inner)}) : {type_text(node)}"


def _attr_texts(node: Node) -> list[str]:
    """name=value; those beyond the record's (which optional operands are there) as #2=value."""
    if node.op is None:
        return []
    names = {index: name for name, index in node.op.attr_index.items()}
    return [f"{names.get(i, f'#{i}')}={_attr_text(a)}" for i, a in enumerate(node.attrs)]


def _attr_text(value: Any) -> str:
    if isinstance(value, Expr):
        return f"{{{print_expr(value, _name)}}}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_attr_text(item)}, " for item in value).rstrip() + ")"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if value is None or isinstance(value, (bool, int, float, str, DType)):
        return repr(value)
    if isinstance(value, Node):
        return f"<{value.name}>"
    return f"<{getattr(value, '__name__', type(value).__name__)}>"


def parse_graph(text: str, buffers: Sequence[Node] = ()) -> list[Node]:
    """The roots of a printed graph. `buffers`: leaves to use, in order, for those it reads."""
    return _Parser(text, buffers).graph()


class _Parser(LineReader):
    def __init__(self, text: str, buffers: Sequence[Node]) -> None:
        super().__init__(text)
        self.buffers = list(buffers)
        self.nodes: dict[str, Node] = {}

    def graph(self) -> list[Node]:
        while True:
            word = self.next_row()
            if word == "return":
                self.take()
                return self.sources(end="")
            if word.startswith("%"):
                self.take()
                self.take("=")
                self.nodes[word] = self.node()
            else:
                self.size()

    def size(self) -> None:
        kind, name = self.take(), self.take()
        self.take("in")
        low, high = self.bounds()
        self.scope[name] = Var(name, low, high, kind)

    def sources(self, end: str) -> list[Node]:
        found = []
        while self.peek().startswith("%"):
            name = self.take()
            if name not in self.nodes:
                self.fail(f"unknown node {name!r}")
            found.append(self.nodes[name])
            if self.peek() != end:
                self.take(",")
        return found

    def node(self) -> Node:
        head = self.take()
        if head == "buffer":
            shape, dtype = self.type()
            return self.buffers.pop(0) if self.buffers else buffer_node(None, shape, dtype)
        if head in ("scalar", "const"):
            value = self.attr()
            _, dtype = self.type()
            return (scalar_node if head == "scalar" else const_node)(value, dtype)
        try:
            record = find_op(head)
        except KeyError:
            self.fail(f"there is no op {head!r}")
        self.take("(")
        src = self.sources(end=")")
        attrs: list[Any] = []
        while not self.accept(")"):
            if self.accept("#"):
                self.take()
            else:
                name = self.take()
                if record.attr_index.get(name) != len(attrs):
                    self.fail(f"{head} has no attribute {name!r} at place {len(attrs)}")
            self.take("=")
            attrs.append(self.attr())
            self.accept(",")
        shape, dtype = self.type()
        return make_node(record, tuple(src), tuple(attrs), shape, dtype)

    def type(self) -> tuple[tuple[int | Expr, ...], DType]:
        self.take(":")
        short = self.take()
        if short not in _SHORT:
            self.fail(f"unknown dtype {short!r}, not one of {', '.join(_SHORT)}")
        self.take("[")
        shape = []
        while not self.accept("]"):
            shape.append(self.index())
            self.accept(",")
        return tuple(shape), _SHORT[short]

    def attr(self) -> Any:
        token = self.take()
        if token == "(":
            items = []
            while not self.accept(")"):
                items.append(self.attr())
                self.accept(",")
            return tuple(items)
        if token == "{":
            value = self.index()
            self.take("}")
            return value
        if token == "complex":
            return complex(*self.attr())
        if token.startswith("torch."):
            return find_dtype(token.removeprefix("torch."))
        if token.lstrip("-") in ("nan", "inf"):
            return float(token)
        try:
            return ast.literal_eval(token)
        except (ValueError, SyntaxError):
            return self.fail(f"cannot read the attribute {token!r}")


__all__ = ["ParseError", "node_text", "parse_graph", "short_name", "to_text", "type_text"]
