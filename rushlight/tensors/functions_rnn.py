"""torch.lstm, gru, rnn_tanh, rnn_relu and their cells: layers, directions, packed sequences.

The arguments are those of PyTorch's functions of these names, which `nn.LSTM` and the others call:
either (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or
for rows packed step by step (data, batch_sizes, hx, params, ...) without the last one. Per layer
and direction `params` holds w_ih, w_hh, with biases b_ih, b_hh, with a projection w_hr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.tensors.autocast_rules import follows, in_low
from rushlight.tensors.functional_act import dropout as drop
from rushlight.tensors.functional_act import linear
from rushlight.tensors.functions_select import index_select, known
from rushlight.tensors.functions_shape import cat, stack
from rushlight.tensors.functions_view import reshape, transpose
from rushlight.tensors.interop import look
from rushlight.tensors.recurrence import next_state, run_layer
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

States = tuple[Tensor, ...]


def _weights(params: Sequence[Tensor], has_biases: bool, runs: int) -> list[tuple]:
    """w_ih, w_hh, b_ih, b_hh, w_hr of each layer and direction; None for what is not there."""
    each = len(params) // runs
    groups = [params[i * each : (i + 1) * each] for i in range(runs)]
    out = []
    for w_ih, w_hh, *rest in groups:
        biases = rest[:2] if has_biases else [None, None]
        projection = rest[2:] if has_biases else rest
        out.append((w_ih, w_hh, *biases, projection[0] if projection else None))
    return out


def _run(
    mode: str, input: Tensor, states: States, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, active: Tensor | None,
) -> tuple[Tensor, States]:  # fmt: skip
    """All layers of (T, B, I); `states` holds those of all layers and directions."""
    directions = 2 if bidirectional else 1
    weights = _weights(params, has_biases, num_layers * directions)
    finals: list[States] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            state = tuple(s[number] for s in states)
            output, final = run_layer(mode, input, state, weights[number], active, direction == 1)
            outputs.append(output)
            finals.append(final)
        input = outputs[0] if directions == 1 else cat(outputs, 2)
        if dropout and layer < num_layers - 1:
            input = drop(input, dropout, train)
    return input, tuple(stack(part) for part in zip(*finals, strict=True))


def _padded(mode: str, input: Tensor, states: States, *settings: Any) -> tuple[Tensor, States]:
    params, has_biases, num_layers, dropout, train, bidirectional, batch_first = settings
    input = transpose(input, 0, 1) if batch_first else input
    run = (
        follows(_run, in_low) if mode == "LSTM" else _run
    )  # PyTorch's LSTM kernel is low as a whole
    output, finals = run(mode, input, states, params, has_biases, num_layers, dropout, train,
                         bidirectional, None)  # fmt: skip
    return transpose(output, 0, 1) if batch_first else output, finals


def _packed(mode: str, data: Tensor, batch_sizes: Tensor, states: States,
            *settings: Any) -> tuple[Tensor, States]:  # fmt: skip
    """Run over the padded form; a sequence's state stays where it has no more steps."""
    sizes = look(batch_sizes).tolist()
    times, batch = len(sizes), sizes[0]
    is_there = np.arange(batch) < np.asarray(sizes)[:, None]
    places = np.flatnonzero(is_there.reshape(-1))
    rows = np.zeros(times * batch, np.int64)
    rows[places] = np.arange(len(places))
    padded = reshape(index_select(data, 0, known(rows)), (times, batch, *data._shape[1:]))
    active = None if is_there.all() else known(is_there[:, :, None])
    output, finals = _run(mode, padded, states, *settings, active)
    flat = reshape(output, (times * batch, *output._shape[2:]))
    return index_select(flat, 0, known(places.astype(np.int64))), finals


def _layers(mode: str, *args: Any) -> tuple[Tensor, States]:
    """Either form; the state of an LSTM is a list of two tensors."""
    is_packed = isinstance(args[3], list | tuple)
    hidden = args[2] if is_packed else args[1]
    states = tuple(hidden) if mode == "LSTM" else (hidden,)
    if is_packed:
        return _packed(mode, args[0], args[1], states, *args[3:])
    return _padded(mode, args[0], states, *args[2:])


def lstm(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs of the last layer, and the last h and c of all layers."""
    output, (h, c) = _layers("LSTM", *args)
    return output, h, c


def _one_state(name: str, mode: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(*args: Any) -> tuple[Tensor, Tensor]:
        output, (h,) = _layers(mode, *args)
        return output, h

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The outputs of the last layer, and the last h of all layers."
    return function


gru = _one_state("gru", "GRU")
rnn_tanh = _one_state("rnn_tanh", "RNN_TANH")
rnn_relu = _one_state("rnn_relu", "RNN_RELU")


def _cell(
    mode: str, input: Tensor, states: States, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> States:  # fmt: skip
    gates_x = linear(input, w_ih, b_ih)
    gates_h = linear(states[0], w_hh, b_hh)
    return next_state(mode, gates_x, gates_h, states, None)


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of an LSTM: the next h and c."""
    h, c = _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return h, c


def _one_state_cell(name: str, mode: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return _cell(mode, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "One step: the next h."
    return function


gru_cell = _one_state_cell("gru_cell", "GRU")
rnn_tanh_cell = _one_state_cell("rnn_tanh_cell", "RNN_TANH")
rnn_relu_cell = _one_state_cell("rnn_relu_cell", "RNN_RELU")
FUNCTIONS: dict[str, Callable] = by_name(
    lstm, gru, rnn_tanh, rnn_relu, lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell
)
METHODS: dict[str, Callable] = {}
