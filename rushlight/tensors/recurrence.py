"""A recurrent layer over all times: the steps as graphs, one loop forward, one loop backward.

Shape letters: T times, B batch, H features of the state h, G gates times the hidden size. What
does not depend on the state (the product of the inputs with their weights) comes in as gates
(T, B, G); the products that give the gradients of the weights are done once, after the backward
loop. So a loop holds only what has to wait for the time before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight import ops
from rushlight.autograd.api import grad
from rushlight.autograd.function import Function
from rushlight.autograd.graph import GraphFn, placeholder
from rushlight.autograd.mode import STATE
from rushlight.base.dtypes import DType, bool_
from rushlight.engine import loops  # noqa: F401  (who runs the steps)
from rushlight.ir.node import Node, topological
from rushlight.ir.text import to_text
from rushlight.ops.build import slice_dim
from rushlight.ops.time_loop import flat_spans
from rushlight.tensors.apply import apply, cast
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.functions_shape import cat, stack
from rushlight.tensors.functions_view import reshape
from rushlight.tensors.tensor import Tensor

Value = Any  # a Node or a Tensor
State = tuple[Value, ...]
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _parts(x: Value, count: int) -> list[Value]:
    """Equal parts of the last dimension."""
    shape = tuple(x.shape)
    size = shape[-1] // count
    return [slice_dim(x, shape, len(shape) - 1, i * size, size) for i in range(count)]


def lstm_cell(gates: Value, h: Value, c: Value) -> State:
    """Input, forget and output gate, and the candidate (Hochreiter and Schmidhuber 1997)."""
    i, f, g, o = _parts(gates, 4)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def gru_cell(gates_x: Value, gates_h: Value, h: Value) -> State:
    """Reset and update gate, and the candidate (Cho et al. 2014)."""
    (reset_x, update_x, new_x), (reset_h, update_h, new_h) = (
        _parts(gates, 3) for gates in (gates_x, gates_h)
    )
    update = ops.sigmoid(update_x + update_h)
    new = ops.tanh(new_x + ops.sigmoid(reset_x + reset_h) * new_h)
    return (new + update * (h - new),)


def tanh_cell(gates: Value, h: Value) -> State:
    """tanh of the sum (Elman 1990)."""
    return (ops.tanh(gates),)


def relu_cell(gates: Value, h: Value) -> State:
    """relu of the sum."""
    return (ops.relu(gates),)


CELLS: dict[str, Callable[..., State]] = {
    "LSTM": lstm_cell, "GRU": gru_cell, "RNN_TANH": tanh_cell, "RNN_RELU": relu_cell,
}  # fmt: skip


def next_state(
    mode: str, gates_x: Value, gates_h: Value, state: State, w_hr: Value | None
) -> State:
    """One step. Only a GRU looks at the gates of the input and of the state apart."""
    gates = (gates_x, gates_h) if mode == "GRU" else (gates_x + gates_h,)
    h, *rest = CELLS[mode](*gates, *state)
    return (h if w_hr is None else ops.linear(h, w_hr, None), *rest)


# Steps as graphs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """All that decides what a step looks like."""

    mode: str
    dtype: DType
    batch: int
    features: int  # of h
    hidden: int  # of c, and of h where nothing is projected
    has_bias: bool
    is_masked: bool

    @property
    def projects(self) -> bool:
        return self.features != self.hidden

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.features, self.hidden) if self.mode == "LSTM" else (self.features,)

    def rows(self, size: int) -> Node:
        return placeholder((self.batch, size), self.dtype)

    @property
    def gates(self) -> int:
        return GATES[self.mode] * self.hidden


class Loop:
    """A step as text, and what `time_loop` is to do with its results."""

    def __init__(
        self, carried: Sequence[Node], sequences: Sequence[Node], constants: Sequence[Node],
        carries: Sequence[Node], kept: Sequence[Node],
    ) -> None:  # fmt: skip
        """`carries`: the next values of `carried`; `kept`: results wanted for every time."""
        roots = [*dict.fromkeys((*kept, *carries))]
        number = {id(root): i for i, root in enumerate(roots)}
        place = {id(node): i for i, node in enumerate((*carried, *sequences, *constants))}
        leaves = [node for node in topological(roots) if node.leaf == "buffer"]
        self.kept_shapes = [node.shape for node in kept]
        self.kept_roots = [number[id(node)] for node in kept]
        self.carry_shapes = [node.shape for node in carries]
        self.attrs: tuple = (
            to_text(roots), tuple(place[id(leaf)] for leaf in leaves),
            tuple(number[id(node)] for node in carries), len(sequences),
            tuple(any(root is node for node in kept) for root in roots),
            tuple(root.numel() for root in roots),
        )  # fmt: skip

    def run(self, operands: Sequence[Tensor], backwards: bool) -> tuple[list[Tensor], list[Tensor]]:
        """The kept results (T, ...) and the last carries."""
        _, _, carries, _, keeps, sizes = self.attrs
        times = operands[len(carries)]._shape[0]
        flat = apply(ops.time_loop, ([*operands], *self.attrs, backwards))
        kept_at, last_at, _ = flat_spans(times, keeps, sizes, carries)
        kept = [
            reshape(flat[kept_at[root] : kept_at[root] + times * sizes[root]], (times, *shape))
            for root, shape in zip(self.kept_roots, self.kept_shapes, strict=True)
        ]
        last = [
            reshape(flat[start : start + sizes[root]], shape)
            for start, root, shape in zip(last_at, carries, self.carry_shapes, strict=True)
        ]
        return kept, last


@functools.lru_cache(maxsize=256)
def forward_loop(kind: Kind, keep_gates: bool) -> Loop:
    """Keeps the states of all times, and what the backward loop needs of the gates."""
    state = [kind.rows(size) for size in kind.state_sizes]
    gates_x = kind.rows(kind.gates)
    active = placeholder((kind.batch, 1), bool_)
    w_hh = placeholder((kind.gates, kind.features), kind.dtype)
    b_hh = placeholder((kind.gates,), kind.dtype)
    w_hr = placeholder((kind.features, kind.hidden), kind.dtype)
    gates_h = ops.linear(state[0], w_hh, b_hh if kind.has_bias else None)
    found = next_state(kind.mode, gates_x, gates_h, tuple(state), w_hr if kind.projects else None)
    if kind.is_masked:
        found = tuple(ops.where(active, new, old) for new, old in zip(found, state, strict=True))
    kept = [*found]
    if keep_gates:
        kept.append(gates_h if kind.mode == "GRU" else gates_x + gates_h)
    return Loop(
        state, _given(gates_x, kind.is_masked and active),
        _given(w_hh, kind.has_bias and b_hh, kind.projects and w_hr), found, kept,
    )  # fmt: skip


def _given(*values: Any) -> list[Any]:
    return [value for value in values if value is not None and value is not False]


@functools.lru_cache(maxsize=256)
def backward_loop(kind: Kind) -> Loop:
    """Keeps the gradients of the gates; of a projection also what it got and its gradient."""
    gradients = [kind.rows(size) for size in kind.state_sizes]
    state = [kind.rows(size) for size in kind.state_sizes]
    active = placeholder((kind.batch, 1), bool_)
    grad_out = kind.rows(kind.features)
    w_hh = placeholder((kind.gates, kind.features), kind.dtype)
    w_hr = placeholder((kind.features, kind.hidden), kind.dtype)
    gates = [kind.rows(kind.gates) for _ in range(2 if kind.mode == "GRU" else 1)]

    coming = [gradients[0] + grad_out, *gradients[1:]]
    staying = None
    if kind.is_masked:
        staying = [ops.where(active, 0.0, g) for g in coming]
        coming = [ops.where(active, g, 0.0) for g in coming]
    of_output = coming[0]
    cell = _cell(kind)
    if kind.projects:
        coming[0] = ops.dot(of_output, w_hr)
    found = cell.vjp((True,) * len(cell.inputs)).instantiate([*gates, *state, *coming])
    of_gates, of_state = found[: len(gates)], list(found[len(gates) :])
    of_gates_h = of_gates[-1]
    through = ops.dot(of_gates_h, w_hh)
    of_state[0] = through if of_state[0] is None else of_state[0] + through
    if staying is not None:
        of_state = [a + b for a, b in zip(of_state, staying, strict=True)]
    kept = [*of_gates]
    if kind.projects:
        kept += [cell.instantiate([*gates, *state])[0], of_output]
    sequences = [*gates, *state, grad_out, *_given(kind.is_masked and active)]
    constants = _given(w_hh, kind.projects and w_hr)
    return Loop(gradients, sequences, constants, of_state, kept)


def _cell(kind: Kind) -> GraphFn:
    """From gates and state to h before a projection, and c."""
    sizes = [kind.gates] * (2 if kind.mode == "GRU" else 1)
    inputs = [kind.rows(size) for size in (*sizes, *kind.state_sizes)]
    return GraphFn(inputs, CELLS[kind.mode](*inputs))


# The layer ---------------------------------------------------------------------------------


class RecurrentLayer(Function):
    """gates_x, the first state and the weights -> h of all times and the last state."""

    @staticmethod
    def forward(
        ctx: Any, mode: str, backwards: bool, active: Tensor | None, gates_x: Tensor,
        w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None, *state: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        hidden = gates_x._shape[2] // GATES[mode]
        kind = Kind(mode, gates_x._dtype, gates_x._shape[1], state[0]._shape[1], hidden,
                    b_hh is not None, active is not None)  # fmt: skip
        keeps = any(ctx.needs_input_grad)
        operands = [*state, gates_x, *_given(active), w_hh, *_given(b_hh, w_hr)]
        kept, last = forward_loop(kind, keeps).run(operands, backwards)
        ctx.kind, ctx.backwards = kind, backwards
        if keeps:
            states = kept[: len(state)]
            ctx.save_for_backward(active, gates_x, w_hh, b_hh, w_hr, *state, *states, kept[-1])
        return (kept[0], *last)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, *grad_last: Tensor) -> tuple[Any, ...]:
        active, gates_x, w_hh, b_hh, w_hr, *rest = ctx.saved_tensors
        kind, count = ctx.kind, len(ctx.kind.state_sizes)
        first, states, gates = rest[:count], rest[count : 2 * count], rest[-1]
        if STATE.grad:  # this gradient is to be differentiated: step by step, then
            inputs = (active, gates_x, w_hh, b_hh, w_hr, *first)
            return _differentiable(kind.mode, ctx.backwards, inputs, (grad_out, *grad_last))
        before = [_moved(a, b, ctx.backwards) for a, b in zip(first, states, strict=True)]
        sequences = [gates_x, gates] if kind.mode == "GRU" else [gates]
        operands = [*grad_last, *sequences, *before, grad_out, *_given(active), w_hh]
        kept, of_first = backward_loop(kind).run([*operands, *_given(w_hr)], not ctx.backwards)
        of_gates_x, of_gates_h = kept[0], kept[1] if kind.mode == "GRU" else kept[0]
        flat = reshape(of_gates_h, (-1, kind.gates))
        of_w_hh = flat.t() @ reshape(before[0], (-1, kind.features))
        of_b_hh = flat.sum(0) if b_hh is not None else None
        of_w_hr = None
        if kind.projects:
            inner, of_output = (reshape(x, (-1, x._shape[-1])) for x in kept[-2:])
            of_w_hr = of_output.t() @ inner
        return (None, None, None, of_gates_x, of_w_hh, of_b_hh, of_w_hr, *of_first)


def _moved(first: Tensor, states: Tensor, backwards: bool) -> Tensor:
    """The state before each time, from that after each."""
    start = reshape(first, (1, *first._shape))
    return cat([states[1:], start]) if backwards else cat([start, states[:-1]])


def run_layer(
    mode: str, input: Tensor, state: tuple[Tensor, ...], weights: Sequence[Tensor | None],
    active: Tensor | None, backwards: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """All times of one layer in one direction.

    `weights` are w_ih, w_hh, b_ih, b_hh, w_hr. `active` (T, B, 1) is true where a sequence has
    this time; else its state stays. Returns h (T, B, H) and the state after the last step.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    gates_x = apply(ops.linear, (input, w_ih, b_ih))
    operands: tuple[Any, ...] = (gates_x, w_hh, b_hh, w_hr)
    if AUTOCAST.dtype is not None:  # the gates are low, the state is as given: it decides
        operands = tuple(t if t is None else cast(t, state[0]._dtype) for t in operands)
    args = (mode, backwards, active, *operands, *state)
    output, *last = RecurrentLayer.apply(*args)
    return output, tuple(last)


def _differentiable(
    mode: str, backwards: bool, inputs: Sequence[Any], grads: Sequence[Tensor]
) -> tuple[Any, ...]:
    """The gradients of the layer, recorded so that they have gradients."""
    active, gates_x, w_hh, b_hh, w_hr, *state = inputs
    output, last = _by_steps(mode, backwards, active, gates_x, w_hh, b_hh, w_hr, tuple(state))
    wanted = [gates_x, w_hh, b_hh, w_hr, *state]
    differs = [t for t in wanted if t is not None and t.requires_grad]
    found = iter(grad([output, *last], differs, grads, create_graph=True, allow_unused=True))
    of_wanted = [next(found) if t is not None and t.requires_grad else None for t in wanted]
    return (None, None, None, *of_wanted)


def _by_steps(
    mode: str, backwards: bool, active: Tensor | None, gates_x: Tensor, w_hh: Tensor,
    b_hh: Tensor | None, w_hr: Tensor | None, state: tuple[Tensor, ...],
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """What the layer computes, recorded step by step."""
    times = range(gates_x._shape[0])
    outputs: list[Any] = [None] * len(times)
    for t in reversed(times) if backwards else times:
        gates_h = apply(ops.linear, (state[0], w_hh, b_hh))
        found = next_state(mode, gates_x[t], gates_h, state, w_hr)
        if active is not None:
            found = tuple(
                apply(ops.where, (active[t], new, old))
                for new, old in zip(found, state, strict=True)
            )
        state = found
        outputs[t] = state[0]
    return stack(outputs), state
