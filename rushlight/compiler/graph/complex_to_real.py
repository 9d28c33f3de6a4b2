"""Complex nodes -> real nodes: after this pass no node is complex.

before   %0 = buffer : c64[8]                   %1 = mul(%0, %0) : c64[8]
after    %0 = buffer : f32[8, 2]                %1, %2 = the views %0[:, 0], %0[:, 1]
         %3 = interleave(%1*%1 - %2*%2, %1*%2 + %2*%1) : f32[8, 2]

A complex value is a pair of real nodes (re, im), and reads and writes interleaved memory. Movement
of what lies in memory moves the memory, a last dim of 2 with it; everything else follows the
`pair` rules of the records. So kernels, their fusion and the backends know nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.compiler.decisions import SILENT, Trace, defined_at
from rushlight.compiler.graph.simplify import simplify
from rushlight.ir.node import (
    Node,
    buffer_node,
    const_node,
    topological,
    with_dtype,
    with_sources,
)
from rushlight.ops import (
    cat,
    complex_host,  # type: ignore
    dot,
    expand,
    flip,
    gather_nd,
    interleave,  # type: ignore
    iota,
    pad,
    permute,
    reshape,
    scatter_nd,
    slice_,
    slice_scatter_,
    unfold,
)
from rushlight.ops import complex_pairs as pairs
from rushlight.ops.complex_pairs import Pair, cast, is_zero

# Of several operands one in memory is enough: what these write is written region by region.
REGIONS = frozenset(("cat", "slice_scatter_", "scatter_nd", "gather_nd"))


def is_complex_graph(roots: Sequence[Node]) -> bool:
    """Is there anything to do?"""
    return any(
        node.dtype.kind == "complex" or (node.op is not None and node.op.kind == "complex")
        for node in topological(list(roots))
    )


class Value:
    """A complex value: as two real nodes, as interleaved memory (a last dim of 2), or both."""

    __slots__ = ("shape", "_pair", "_memory")

    def __init__(self, shape: tuple, pair: Pair | None = None, memory: Node | None = None) -> None:
        self.shape, self._pair, self._memory = shape, pair, memory

    @property
    def pair(self) -> Pair:
        if self._pair is None:
            assert self._memory is not None
            self._pair = Pair(*(_part(self._memory, self.shape, at) for at in (0, 1)))
        return self._pair

    @property
    def memory(self) -> Node:
        if self._memory is None:
            re, im = self.pair
            value = _constant_of(re)
            if value is not None and value == _constant_of(im):
                self._memory = expand(const_node(value, re.dtype), (*self.shape, 2))
            else:
                self._memory = interleave(_spread(re, self.shape), _spread(im, self.shape))
        return self._memory

    @property
    def lies_in_memory(self) -> bool:
        """Is the memory there, or is it a constant?"""
        if self._memory is not None:
            return True
        re, im = (_constant_of(part) for part in self.pair)
        return re is not None and re == im


def _part(memory: Node, shape: tuple, at: int) -> Node:
    rank = len(shape)
    start, length = (*(0,) * rank, at), (*shape, 1)
    return simplify(reshape(simplify(slice_(memory, start, length, (1,) * (rank + 1))), shape))


def _constant_of(node: Node) -> Any:
    """The number of a constant, however it is spread; None for anything else."""
    while node.name in ("expand", "reshape"):
        node = node.src[0]
    return node.attrs[0] if node.leaf == "const" else None


def _spread(node: Node, shape: tuple) -> Node:
    return node if node.shape == shape else expand(node, shape)


def complex_to_real(
    roots: Sequence[Node], inputs: Sequence[Node],
    came_from: dict[Node, Node] | None = None, trace: Trace = SILENT,
) -> tuple[list[Node], dict[Node, Node]]:  # fmt: skip
    """Real roots with the same memory, and what became of each input.

    `came_from` gets new node -> old node.
    """
    rewriting = _Rewriting({} if came_from is None else came_from, trace)
    moved = {leaf: rewriting.input(leaf) for leaf in inputs}
    for node in topological(list(roots)):
        rewriting.visit(node)
    return [rewriting.stored(root) for root in roots], moved


class _Rewriting:
    """done: old node -> its real node, or its Value."""

    def __init__(self, came_from: dict[Node, Node], trace: Trace) -> None:
        self.done: dict[Node, Node | Value] = {}
        self.came_from = came_from
        self.trace = trace
        self.known: set[Node] = set()

    def input(self, leaf: Node) -> Node:
        self.visit(leaf)
        return self.stored(leaf)

    def stored(self, node: Node) -> Node:
        """The real node with the memory of a node."""
        found = self.done[node]
        if isinstance(found, Node):
            return found
        memory = found.memory
        self._note(memory, node)
        return memory

    def visit(self, node: Node) -> None:
        if node in self.done:
            return
        made = self._leaf(node) if node.leaf else self._op(node)
        self.done[node] = made
        for part in _nodes_of(made):
            self._note(part, node)
        if node.dtype.kind == "complex" and node.op is not None:
            where = defined_at(node.op.pair) if callable(node.op.pair) else ""
            for part in _nodes_of(made):
                self.trace.rewrote(f"real_{node.name}", where, node, part)

    def _note(self, made: Node, node: Node) -> None:
        """Everything new below `made` comes from `node`."""
        for new in topological([made], self.known.__contains__):
            if new not in self.known:
                self.known.add(new)
                if new is not node:
                    self.came_from.setdefault(new, node)

    def _leaf(self, node: Node) -> Node | Value:
        if node.dtype.kind != "complex":
            return node
        part = node.dtype.to_real()
        if node.leaf == "buffer":
            memory = buffer_node(node.buffer, (*node.shape, 2), part)
            return Value(node.shape, memory=memory)
        if node.leaf == "scalar":  # holds a real number
            return Value((), Pair(with_dtype(node, part), const_node(0, part)))
        value = node.attrs[0]
        return Value((), Pair(const_node(value.real, part), const_node(value.imag, part)))

    def _op(self, node: Node) -> Node | Value:
        op = node.op
        assert op is not None
        src = [self.done[s] for s in node.src]
        plain = all(isinstance(s, Node) for s in src)
        if plain and node.dtype.kind != "complex" and op.kind != "complex":
            return with_sources(node, tuple(src))  # type: ignore[arg-type]
        if callable(op.pair):
            return self._by_rule(node)
        if op.kind == "host":
            return _host(node, src)
        build = _BUILD.get(node.name)
        if build is None:
            raise NotImplementedError(f"{op.name} of complex numbers")
        return build(node, src)

    def _by_rule(self, node: Node) -> Node | Value:
        """The record's `pair` rule, in its compute dtype, in the node's shape."""
        op = node.op
        assert op is not None
        named = op.call_of(node).named
        whole = op.kind != "elementwise"
        operands = [self._operand(named[p.name], whole) for p in op.params if not p.is_attr]
        attrs = {p.name: named[p.name] for p in op.params if p.is_attr}
        if op.name != "cast":
            operands = [_computed(value) for value in operands]
        made = op.pair(*operands, **attrs)
        if not isinstance(made, Pair):
            return _fitted(made, node.shape, node.dtype)
        part = node.dtype.to_real()
        return Value(node.shape, Pair(*(_fitted(m, node.shape, part) for m in made)))

    def _operand(self, source: Node, whole: bool) -> Any:
        """`whole`: a part that is one number is spread to the operand's shape."""
        found = self.done[source]
        if isinstance(found, Node):
            return found
        return Pair(*(_spread(part, source.shape) for part in found.pair)) if whole else found.pair


def _nodes_of(made: Node | Value) -> tuple[Node, ...]:
    if isinstance(made, Node):
        return (made,)
    return made._pair if made._memory is None else (made._memory,)  # type: ignore[return-value]


def _computed(value: Any) -> Any:
    """Halves are computed as float32."""
    if not isinstance(value, Pair) or value.re.dtype.compute is value.re.dtype:
        return value
    return cast(value, value.re.dtype.compute.to_complex())


def _fitted(node: Node, shape: tuple, dtype: Any) -> Node:
    """A result in its own shape and dtype; a constant stays one number."""
    if node.dtype is not dtype:
        node = cast(Pair(node, node), dtype.to_complex()).re if dtype.kind == "float" else node
    return node if node.shape == shape or _constant_of(node) is not None else expand(node, shape)


# movement ----------------------------------------------------------------------------------


def _with_two(attrs: tuple, *more: Any) -> tuple:
    """The attributes, each given the value for the last dim of 2."""
    return tuple((*attr, extra) for attr, extra in zip(attrs, more, strict=False))


def _moved(build: Callable[..., Node]) -> Callable[[Node, list], Value]:
    """build(node, operands): the same move of memory or of one part."""

    def move(node: Node, src: list) -> Value:
        if _moves_in_memory(node, [s for s in src if isinstance(s, Value)]):
            memory = build(node, [s.memory if isinstance(s, Value) else s for s in src], True)
            return Value(node.shape, memory=simplify(memory))
        parts = []
        for which in (0, 1):
            operands = [s.pair[which] if isinstance(s, Value) else s for s in src]
            operands = [
                _spread(o, old.shape) if isinstance(s, Value) else o
                for o, s, old in zip(operands, src, node.src, strict=True)
            ]
            parts.append(simplify(build(node, operands, False)))
        return Value(node.shape, Pair(*parts))

    return move


def _moves_in_memory(node: Node, values: list[Value]) -> bool:
    some = any if node.name in REGIONS else all
    known = node.name != "pad" or _constant_of(values[1].memory) is not None
    return known and some(v.lies_in_memory for v in values)


def _reshape(node: Node, src: list, memory: bool) -> Node:
    return reshape(src[0], (*node.shape, 2) if memory else node.shape)


def _expand(node: Node, src: list, memory: bool) -> Node:
    if not memory:
        return expand(src[0], node.shape)
    have, rank = node.src[0].shape, len(node.shape)
    lead = (1,) * (rank - len(have))
    return expand(reshape(src[0], (*lead, *have, 2)), (*node.shape, 2))


def _permute(node: Node, src: list, memory: bool) -> Node:
    dims = node.attrs[0]
    return permute(src[0], (*dims, len(dims)) if memory else dims)


def _slice(node: Node, src: list, memory: bool) -> Node:
    attrs = node.attrs[:3]
    return slice_(src[0], *(_with_two(attrs, 0, 2, 1) if memory else attrs))


def _slice_scatter(node: Node, src: list, memory: bool) -> Node:
    attrs = node.attrs[:3]
    return slice_scatter_(*src, *(_with_two(attrs, 0, 2, 1) if memory else attrs))


def _flip(node: Node, src: list, memory: bool) -> Node:
    return flip(src[0], node.attrs[0])


def _pad(node: Node, src: list, memory: bool) -> Node:
    attrs = node.attrs[:3]
    x, fill = src
    if not memory:
        return pad(x, reshape(fill, ()) if fill.shape else fill, *attrs)
    return pad(x, const_node(_constant_of(fill), x.dtype), *_with_two(attrs, 0, 0, 0))


def _cat(node: Node, src: list, memory: bool) -> Node:
    return cat(src, node.attrs[0])


def _unfold(node: Node, src: list, memory: bool) -> Node:
    made = unfold(src[0], *node.attrs)
    if not memory:
        return made
    rank = len(node.shape)  # the window is the last dim, behind the parts
    return permute(made, (*range(rank - 1), rank, rank - 1))


def _gather(node: Node, src: list, memory: bool) -> Node:
    return gather_nd(src[0], src[1:])


def _scatter(node: Node, src: list, memory: bool) -> Node:
    return scatter_nd(src[0], src[1], src[2:], node.attrs[0])


# the rest ----------------------------------------------------------------------------------


def _complex(node: Node, src: list) -> Value:
    return Value(node.shape, Pair(*(_spread(s, node.shape) for s in src)))


def _real(node: Node, src: list) -> Node:
    (x,) = src
    return x if isinstance(x, Node) else _spread(x.pair.re, node.shape)


def _imag(node: Node, src: list) -> Node:
    return _spread(src[0].pair.im, node.shape)


def _as_real(node: Node, src: list) -> Node:
    return src[0].memory


def _as_complex(node: Node, src: list) -> Value:
    return Value(node.shape, memory=src[0])


def _iota(node: Node, src: list) -> Value:
    part = node.dtype.to_real()
    return Value(node.shape, Pair(iota(node.attrs[0], part), const_node(0, part)))


def _dot(node: Node, src: list) -> Value:
    """Four real products; a factor without an imaginary part needs two."""
    part = node.dtype.to_real()

    def product(x: Node, y: Node) -> Node:
        if is_zero(x) or is_zero(y):
            return const_node(0, part)
        return dot(*(_spread(n, old.shape) for n, old in zip((x, y), node.src, strict=True)))

    a, b = (s.pair for s in src)
    straight = Pair(product(a.re, b.re), product(a.re, b.im))
    crossed = Pair(product(a.im, b.im), product(a.im, b.re))
    re, im = pairs.sub(straight, crossed).re, pairs.add(straight, crossed).im
    return Value(node.shape, Pair(re, im))


def _host(node: Node, src: list) -> Node | Value:
    """A function of the host on interleaved memory."""
    flags = tuple(isinstance(s, Value) for s in src)
    operands = [s.memory if isinstance(s, Value) else s for s in src]
    made = complex_host(operands, node.op.name, node.attrs, flags)  # type: ignore[union-attr]
    return Value(node.shape, memory=made) if node.dtype.kind == "complex" else made


_BUILD: dict[str, Callable[[Node, list], Node | Value]] = {
    "reshape": _moved(_reshape), "expand": _moved(_expand), "permute": _moved(_permute),
    "slice_": _moved(_slice), "slice_scatter_": _moved(_slice_scatter), "flip": _moved(_flip),
    "pad": _moved(_pad), "cat": _moved(_cat), "unfold": _moved(_unfold),
    "gather_nd": _moved(_gather), "scatter_nd": _moved(_scatter), "complex": _complex,
    "real": _real, "imag": _imag, "view_as_real": _as_real, "view_as_complex": _as_complex,
    "iota": _iota, "dot": _dot, "dot_sliding": _dot,
}  # fmt: skip
