"""How each primitive works on a batch: one rule per kind of node.

In: a node of one example, its sources on the batch (a `Value`: the node, and whether its first
dimension is the batch), and the size of the batch. Out: the node for all examples at once, batch
first. A primitive without a rule is done example by example (`one_by_one`), with a warning that
names it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.ir.node import Node, make_node


class Value(NamedTuple):
    """A node on the batch. `batched`: its first dimension is the batch; else it is the same for
    all examples."""

    node: Node
    batched: bool


class NoRule(Exception):
    """A node that can only be done by calling the function for each example."""


Rule = Callable[[Node, list[Value], int], Node]
# Composites that work element by element: they are kept, so their own gradients are.
POINTWISE = frozenset(
    """relu gelu silu elu celu selu leaky_relu softplus mish log_sigmoid hardtanh relu6 hardsigmoid
    hardswish softsign tanhshrink hardshrink softshrink threshold square clamp lerp addcmul addcdiv
    rsub hypot logaddexp logaddexp2 xlogy nan_to_num heaviside frac isclose deg2rad rad2deg sinc
    isposinf isneginf logit trigamma lcm masked_fill i0e i1e i0 i1 bessel_j0 bessel_j1 bessel_y0
    bessel_y1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 erfcx airy_ai polar""".split()
)
# Composites over named dimensions.
WITH_DIMS = frozenset(
    """sum prod mean amax amin any all argmax argmin count_nonzero var std logsumexp norm softmax
    log_softmax cumsum cumprod logcumsumexp glu fold_dim repeat_interleave""".split()
)
# Composites and host functions whose leading dimensions are a batch already.
LEADING = frozenset(
    """scaled_dot_product_attention inverse solve cholesky cholesky_info eigh svd qr det
    slogdet_sign logabsdet eig lu solve_triangular cholesky_solve pinv ldl ldl_solve tril
    triu geqrf pivot_permutation whole_qr whole_svd""".split()
)
# Operands of these that have a dimension less than the others.
VECTORS = {"ldl_solve": (1,)}
# Composites over the last dimensions, with parameters that are the same for all examples.
LAST_DIMS = frozenset("layer_norm rms_norm linear".split())
CONVOLUTIONS = frozenset(
    """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d
    max_pool3d max_pool1d_index max_pool2d_index max_pool3d_index avg_pool1d avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d""".split()
)
FFT = frozenset("fft_c2c fft_r2c fft_c2r".split())


def full(value: Value, size: int) -> Node:
    """With the batch in front, repeated if it is the same for all."""
    if value.batched:
        return value.node
    return ops.expand.node(value.node, (size, *value.node.shape))


def aligned(value: Value, ndim: int) -> Node:
    """A batched operand that broadcasts with operands of `ndim` dimensions per example."""
    if not value.batched:
        return value.node
    batch, *shape = value.node.shape
    if len(shape) >= ndim:
        return value.node
    return ops.reshape.node(value.node, (batch, *[1] * (ndim - len(shape)), *shape))


def again(node: Node, sources: list[Node], **changed: Any) -> Node:
    """The node's op on other sources, with some attributes changed; its rules give the shape."""
    op = node.op
    assert op is not None
    named = op.call_of(make_node(op, tuple(sources), node.attrs, node.shape, node.dtype)).named
    named.update(changed)
    return op.node(**named)


def pointwise(node: Node, sources: list[Value], size: int) -> Node:
    nodes = [aligned(value, len(node.shape)) for value in sources]
    return make_node(node.op, tuple(nodes), node.attrs, (size, *node.shape), node.dtype)  # type: ignore[arg-type]


def shifted(node: Node, name: str) -> dict[str, Any]:
    """The attribute `name`, a dimension or several, one further."""
    value = node.attr(name)
    if isinstance(value, int):
        return {name: value + 1}
    if not value and node.op is not None and node.op.kind == "composite":  # over all
        value = range(node.src[0].ndim)
        if not value:
            raise NoRule(node.name)
    return {name: tuple(d + 1 for d in value)}


def over_dims(node: Node, sources: list[Value], size: int) -> Node:
    """Reductions, scans, sorts: the dimensions are one further."""
    assert node.op is not None
    if not node.src[0].shape:
        return over_dims_of_numbers(node, sources, size)
    nodes = [full(value, size) if value.batched or i == 0 else value.node
             for i, value in enumerate(sources)]  # fmt: skip
    names = [p.name for p in node.op.params if p.kind in ("dim", "dims")]
    changed: dict[str, Any] = {}
    for name in names:
        changed.update(shifted(node, name))
    return again(node, nodes, **changed)


def over_dims_of_numbers(node: Node, sources: list[Value], size: int) -> Node:
    """An example without dimensions counts as one with a dimension of one element."""
    wide = [Value(ops.reshape.node(value.node, (*value.node.shape, 1)), value.batched)
            if len(value.node.shape) == value.batched else value for value in sources]  # fmt: skip
    one = [Value(ops.reshape.node(s, (1,)) if not s.shape else s, False) for s in node.src]
    out = over_dims(again(node, [value.node for value in one]), wide, size)
    return ops.reshape.node(out, (size, *node.shape))


def leading(node: Node, sources: list[Value], size: int) -> Node:
    """What works on the last dimensions of each operand; all operands get the batch."""
    less = [int(i in VECTORS.get(node.name, ())) for i in range(len(sources))]
    most = max(len(s.node.shape) - s.batched + few for s, few in zip(sources, less, strict=True)
               if s.node.shape)  # fmt: skip
    nodes = []
    for value, few in zip(sources, less, strict=True):
        if not value.batched and not value.node.shape:
            nodes.append(value.node)  # a number
            continue
        whole = Value(full(value, size), True)
        nodes.append(aligned(whole, most - few))
    return again(node, nodes)


def last_dims(node: Node, sources: list[Value], size: int) -> Node:
    if any(value.batched for value in sources[1:]):
        raise NoRule(node.name)
    return again(node, [value.node for value in sources])


def folded(node: Node, sources: list[Value], size: int) -> Node:
    """Convolution and pooling: the batch joins the batch that is there."""
    spatial = int(node.name.rstrip("_index").rstrip("d")[-1])
    first = sources[0]
    if any(value.batched for value in sources[1:]) or len(node.shape) != spatial + 2:
        raise NoRule(node.name)
    batch, examples, *rest = first.node.shape
    joined = ops.reshape.node(first.node, (batch * examples, *rest))
    out = again(node, [joined, *[value.node for value in sources[1:]]])
    return ops.reshape.node(out, (size, *node.shape))


def reshape(node: Node, sources: list[Value], size: int) -> Node:
    return ops.reshape.node(sources[0].node, (size, *node.shape))


def permute(node: Node, sources: list[Value], size: int) -> Node:
    return ops.permute.node(sources[0].node, (0, *(d + 1 for d in node.attr("dims"))))


def expand(node: Node, sources: list[Value], size: int) -> Node:
    return ops.expand.node(aligned(sources[0], len(node.shape)), (size, *node.shape))


def sliced(node: Node, sources: list[Value], size: int) -> Node:
    """slice_ and slice_scatter_: the whole batch."""
    start, length, step = (tuple(node.attr(name)) for name in ("start", "length", "step"))
    nodes = [full(value, size) for value in sources]
    return again(node, nodes, start=(0, *start), length=(size, *length), step=(1, *step))


def pad(node: Node, sources: list[Value], size: int) -> Node:
    x, fill = sources
    if fill.batched:
        return one_by_one(node, sources, size)
    low, high, interior = (tuple(node.attr(name)) for name in ("low", "high", "interior"))
    return ops.pad.node(x.node, fill.node, (0, *low), (0, *high), (0, *interior))


def cat(node: Node, sources: list[Value], size: int) -> Node:
    return ops.cat.node([full(value, size) for value in sources], node.attr("dim") + 1)


def dot(node: Node, sources: list[Value], size: int) -> Node:
    assert node.op is not None
    return node.op.node(*(full(value, size) for value in sources), *node.attrs)


def own_row(index: Node, size: int) -> Node:
    """0, 1, ... along the batch, in the shape of an index tensor with a batch."""
    row = ops.reshape.node(ops.iota.node(size, int64), (size, *[1] * (len(index.shape) - 1)))
    return ops.expand.node(row, index.shape)


def gather(node: Node, sources: list[Value], size: int) -> Node:
    x, *given = sources
    indices = [full(value, size) for value in given]
    if x.batched:
        indices = [own_row(indices[0], size), *indices]
    return ops.gather_nd.node(x.node, indices)


def scatter(node: Node, sources: list[Value], size: int) -> Node:
    x, src, *given = sources
    indices = [full(value, size) for value in given]
    indices = [own_row(indices[0], size), *indices]
    return ops.scatter_nd.node(full(x, size), full(src, size), indices, node.attr("kind"))


def random_bits(node: Node, sources: list[Value], size: int) -> Node:
    seed, offset = (value.node for value in sources)
    return ops.random_bits.node(seed, offset, (size, *node.shape))


def one_by_one(node: Node, sources: list[Value], size: int) -> Node:
    """The node for each example, and the results put together."""
    warnings.warn(
        f"vmap: there is a performance drop because there is no batching rule for {node.name}: it "
        "is done for each example",
        stacklevel=2,
    )
    parts = []
    for i in range(size):
        nodes = [_example(value, i) if value.batched else value.node for value in sources]
        out = again(node, nodes)
        parts.append(ops.reshape.node(out, (1, *out.shape)))
    return ops.cat.node(parts, 0)


def _example(value: Value, i: int) -> Node:
    _, *shape = value.node.shape
    start, step = (i, *[0] * len(shape)), (1,) * (1 + len(shape))
    return ops.reshape.node(ops.slice_.node(value.node, start, (1, *shape), step), tuple(shape))


BY_NAME: dict[str, Rule] = {
    "reshape": reshape, "permute": permute, "expand": expand, "slice_": sliced,
    "slice_scatter_": sliced, "flip": over_dims, "pad": pad, "cat": cat, "unfold": over_dims,
    "time_loop": one_by_one, "complex_host": one_by_one, "gammainc": pointwise,
    **dict.fromkeys(POINTWISE, pointwise), **dict.fromkeys(WITH_DIMS, over_dims),
    **dict.fromkeys(LEADING, leading), **dict.fromkeys(LAST_DIMS, last_dims),
    **dict.fromkeys(CONVOLUTIONS, folded), **dict.fromkeys(FFT, over_dims),
}  # fmt: skip
BY_KIND: dict[str, Rule] = {
    "elementwise": pointwise, "reduce": over_dims, "scan": over_dims, "sort": over_dims,
    "dot": dot, "gather": gather, "scatter": scatter, "random": random_bits, "complex": pointwise,
    "interleave": pointwise, "host": one_by_one,
}  # fmt: skip


def rule_of(node: Node) -> Rule | None:
    """The rule; None: the node is to be taken apart (a composite), or there is none."""
    assert node.op is not None
    return BY_NAME.get(node.name) or BY_KIND.get(node.op.kind)
