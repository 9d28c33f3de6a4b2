"""One step of each recurrent network, and a layer: the step over all times.

Shape letters: T times, B batch, I input features, H hidden features, G gates times H.
A state is a tuple: (h,) or, for an LSTM, (h, c). Everything that does not depend on the state, the
product of the inputs with their weights, is computed for all times at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.nn import functional as F

Tensor = torch.Tensor
State = tuple[Tensor, ...]
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class Weights(NamedTuple):
    """The parameters of one layer in one direction."""

    ih: Tensor
    hh: Tensor
    ih_bias: Tensor | None = None
    hh_bias: Tensor | None = None
    hr: Tensor | None = None  # an LSTM's projection of h


Step = Callable[[Tensor, State, Weights], State]


def lstm_step(gates_x: Tensor, state: State, weights: Weights) -> State:
    """Input, forget and output gate, and the candidate (Hochreiter and Schmidhuber 1997)."""
    h, c = state
    gates = gates_x + F.linear(h, weights.hh, weights.hh_bias)
    i, f, g, o = gates.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (h if weights.hr is None else F.linear(h, weights.hr)), c


def gru_step(gates_x: Tensor, state: State, weights: Weights) -> State:
    """Reset and update gate, and the candidate (Cho et al. 2014)."""
    (h,) = state
    reset_x, update_x, new_x = gates_x.chunk(3, -1)
    reset_h, update_h, new_h = F.linear(h, weights.hh, weights.hh_bias).chunk(3, -1)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
    return (new + update * (h - new),)


def tanh_step(gates_x: Tensor, state: State, weights: Weights) -> State:
    """tanh of the sum (Elman 1990)."""
    return (torch.tanh(gates_x + F.linear(state[0], weights.hh, weights.hh_bias)),)


def relu_step(gates_x: Tensor, state: State, weights: Weights) -> State:
    """relu of the sum."""
    return (F.relu(gates_x + F.linear(state[0], weights.hh, weights.hh_bias)),)


STEPS: dict[str, Step] = {
    "LSTM": lstm_step,
    "GRU": gru_step,
    "RNN_TANH": tanh_step,
    "RNN_RELU": relu_step,
}


def run_cell(mode: str, input: Tensor, state: State, weights: Weights) -> State:
    """One step from the input itself."""
    return STEPS[mode](F.linear(input, weights.ih, weights.ih_bias), state, weights)


def run_layer(
    mode: str,
    input: Tensor,
    state: State,
    weights: Weights,
    active: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, State]:
    """All steps of one layer in one direction.

    Args:
        input: (T, B, I).
        state: the state before the first step (in its direction), each (B, H).
        active: (T, B, 1), true where a sequence has this time; else its state stays.
        reverse: go from the last time to the first.

    Returns:
        The outputs h (T, B, H), and the state after the last step.
    """
    gates = F.linear(input, weights.ih, weights.ih_bias)
    step = STEPS[mode]
    times = range(input.size(0))
    outputs: list[Any] = [None] * len(times)
    for t in reversed(times) if reverse else times:
        following = step(gates[t], state, weights)
        if active is not None:
            following = tuple(
                torch.where(active[t], new, old) for new, old in zip(following, state, strict=True)
            )
        state = following
        outputs[t] = state[0]
    return torch.stack(outputs), state
