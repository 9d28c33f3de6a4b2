"""One step of a recurrent network as a module: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

Tensor = torch.Tensor


class RNNCellBase(Module):
    """What the cells share: four weights and the checks of one step's input and state."""

    nonlinearity = "tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes: dict[str, Any] = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,) if bias else None,
            "bias_hh": (rows,) if bias else None,
        }
        for name, shape in shapes.items():
            start = None
            if shape is not None:
                start = Parameter(torch.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights uniformly from [-1/sqrt(hidden_size), 1/sqrt(hidden_size)]."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(
        self, name: str, input: Tensor, states: tuple[Tensor | None, ...]
    ) -> tuple[Tensor, ...]:
        """Check, give missing states zeros, and run one step with or without a batch."""
        own_name = self._get_name()
        for what, tensor in (("input", input), *(("hidden", state) for state in states)):
            if tensor is not None and tensor.dim() not in (1, 2):
                raise ValueError(
                    f"{own_name}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead"
                )
        is_batched = input.dim() == 2
        rows = input if is_batched else input.unsqueeze(0)
        if rows.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {rows.size(1)} expected {self.input_size}"
            )
        zeros = None
        full: list[Tensor] = []
        for place, state in enumerate(states):
            if state is None:
                if zeros is None:
                    shape = (rows.size(0), self.hidden_size)
                    zeros = torch.zeros(shape, dtype=input.dtype, device=input.device)
                full.append(zeros)
                continue
            state = state if is_batched else state.unsqueeze(0)
            self._check_state(rows, state, place)
            full.append(state)
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        hx = tuple(full) if len(full) > 1 else full[0]
        found = getattr(torch, name)(rows, hx, *weights)
        result = found if len(full) > 1 else (found,)
        return result if is_batched else tuple(state.squeeze(0) for state in result)

    def _check_state(self, input: Tensor, state: Tensor, place: int) -> None:
        if input.size(0) != state.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{place} batch size "
                f"{state.size(0)}"
            )
        if state.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{place} has inconsistent hidden_size: got {state.size(1)}, expected "
                f"{self.hidden_size}"
            )

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        return text + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    Example:
        >>> RNNCell(3, 4)(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next h of (B, I) and (B, H), or of (I) and (H)."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}_cell", input, (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: from (h, c) to the next (h, c).

    Example:
        >>> h, c = LSTMCell(3, 4)(torch.zeros(2, 3))
        >>> h.shape, c.shape
        (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the next h and c of (B, I) and two of (B, H), or of (I) and two of (H)."""
        h, c = self._step("lstm_cell", input, (None, None) if hx is None else (hx[0], hx[1]))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Example:
        >>> GRUCell(3, 4)(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next h of (B, I) and (B, H), or of (I) and (H)."""
        return self._step("gru_cell", input, (hx,))[0]
