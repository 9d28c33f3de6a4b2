"""Recurrent networks: RNN, LSTM, GRU, and the cells of one step."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence

Tensor = torch.Tensor
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def check_settings(mode: str, sizes: dict[str, Any], dropout: Any, proj_size: int) -> None:
    """Raise for settings that make no network."""
    if (
        not isinstance(dropout, numbers.Number)
        or isinstance(dropout, bool)
        or not 0 <= dropout <= 1
    ):  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    if dropout > 0 and sizes["num_layers"] == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and num_layers=1",
            stacklevel=4,
        )
    for name in ("input_size", "hidden_size"):
        if not isinstance(sizes[name], int):
            raise TypeError(f"{name} should be of type int, got: {type(sizes[name]).__name__}")
    for name, size in sizes.items():
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= sizes["hidden_size"]:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if mode not in GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights by layer and direction, and the layers' order.

    The weights of layer l are `weight_ih_l{l}`, `weight_hh_l{l}`, `bias_ih_l{l}`, `bias_hh_l{l}`
    and, with a projection, `weight_hr_l{l}`; those of the other direction end in `_reverse`.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        check_settings(mode, sizes, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ["", "_reverse"][: self.directions]:
                self._add_weights(layer, suffix, {"device": device, "dtype": dtype})
        self.reset_parameters()

    @property
    def directions(self) -> int:
        """One, or two."""
        return 2 if self.bidirectional else 1

    @property
    def output_features(self) -> int:
        """How many features h has in one direction."""
        return self.proj_size or self.hidden_size

    def _add_weights(self, layer: int, suffix: str, options: dict[str, Any]) -> None:
        rows = GATES[self.mode] * self.hidden_size
        columns = self.input_size if layer == 0 else self.output_features * self.directions
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, columns),
            "weight_hh": (rows, self.output_features),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = {kind: f"{kind}_l{layer}{suffix}" for kind in shapes}
        for kind, name in names.items():
            setattr(self, name, Parameter(torch.empty(shapes[kind], **options)))
        self._all_weights.append([*names.values()])

    def reset_parameters(self) -> None:
        """Draw all weights uniformly from [-1/sqrt(hidden_size), 1/sqrt(hidden_size)]."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: no backend here wants the weights side by side in memory."""

    # --- checks ---------------------------------------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise for an input of another dtype, size or number of dimensions."""
        weight = self._flat_weights[0]
        if weight is not None and input.dtype != weight.dtype and not is_autocast(weight):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of h for an input."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return (self.num_layers * self.directions, batch, self.output_features)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise for a state of another shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise unless input and state fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Put the batch of a state in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # --- forward --------------------------------------------------------------------------

    def _first_state(self, input: Tensor, batch: int) -> Any:
        count = self.num_layers * self.directions
        return torch.zeros(
            count, batch, self.output_features, dtype=input.dtype, device=input.device
        )

    def _hidden(self, states: Any) -> Any:
        """The states of the function as the one that `forward` returns."""
        return states[0]

    def _check_unbatched(self, hx: Any, is_batched: bool) -> None:
        dims = 3 if is_batched else 2
        if hx is not None and hx.dim() != dims:
            kind = "batched 3-D" if is_batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx should also be {dims}-D but got {hx.dim()}-D tensor"
            )

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of the last layer and the last states of all layers.

        Args:
            input: (T, B, I), (B, T, I) with `batch_first`, (T, I), or a PackedSequence.
            hx: the first states (layers * directions, B, H); zeros if None.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D"
                f"{' tensor' if self.mode.startswith('RNN') else ''} instead"
            )
        is_batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        self._check_unbatched(hx, is_batched)
        if not is_batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else self._mapped(hx, lambda h: h.unsqueeze(1))
        if hx is None:
            hx = self._first_state(input, input.size(batch_dim))
        self.check_forward_args(input, hx, None)
        if input.size(0 if not self.batch_first else 1) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        output, *states = self._function(input, hx, *self._settings(), self.batch_first)
        hidden = self._hidden(states)
        if not is_batched:
            output = output.squeeze(batch_dim)
            hidden = self._mapped(hidden, lambda h: h.squeeze(1))
        return output, hidden

    @property
    def _function(self) -> Callable[..., tuple[Tensor, ...]]:
        return getattr(torch, self.mode.lower())

    def _settings(self) -> tuple[Any, ...]:
        """What the function wants to know besides the input and the state."""
        return (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )

    def _mapped(self, hidden: Any, fn: Callable[[Tensor], Tensor]) -> Any:
        return fn(hidden)

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if hx is None:
            hx = self._first_state(data, int(batch_sizes[0]))
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        rows, *states = self._function(data, batch_sizes, hx, *self._settings())
        hidden = self.permute_hidden(self._hidden(states), unsorted_indices)
        return PackedSequence(rows, batch_sizes, sorted_indices, unsorted_indices), hidden

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        defaults["bidirectional"] = False
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


def is_autocast(weight: Tensor) -> bool:
    """Say if the inputs of products are converted anyway."""
    return torch.is_autocast_enabled(weight.device.type)


def _no_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    Args as of RNNBase, without `mode`; `nonlinearity` ('tanh' or 'relu') comes after num_layers.

    Example:
        >>> output, h = RNN(3, 4, batch_first=True)(torch.zeros(2, 5, 3))
        >>> output.shape, h.shape
        (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    """The gated recurrent unit.

    Example:
        >>> output, h = GRU(3, 4, bidirectional=True)(torch.zeros(5, 2, 3))
        >>> output.shape, h.shape
        (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory; its state is the pair (h, c).

    Example:
        >>> output, (h, c) = LSTM(3, 4, num_layers=2)(torch.zeros(5, 2, 3))
        >>> output.shape, h.shape, c.shape
        (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of c for an input."""
        count, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return (count, batch, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise unless input and both states fit."""
        self.check_input(input, batch_sizes)
        sizes = (self.get_expected_hidden_size, self.get_expected_cell_size)
        for place, size in enumerate(sizes):
            message = f"Expected hidden[{place}] size {{}}, got {{}}"
            self.check_hidden_size(hidden[place], size(input, batch_sizes), message)

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Put the batch of both states in another order."""
        return tuple(super(LSTM, self).permute_hidden(h, permutation) for h in hx)

    def _first_state(self, input: Tensor, batch: int) -> Any:
        count = self.num_layers * self.directions
        c = torch.zeros(count, batch, self.hidden_size, dtype=input.dtype, device=input.device)
        return super()._first_state(input, batch), c

    def _hidden(self, states: Any) -> Any:
        return tuple(states)

    def _mapped(self, hidden: Any, fn: Callable[[Tensor], Tensor]) -> Any:
        return tuple(fn(h) for h in hidden)

    def _check_unbatched(self, hx: Any, is_batched: bool) -> None:
        dims = 3 if is_batched else 2
        if hx is not None and any(h.dim() != dims for h in (hx[0], hx[1])):
            kind = "batched 3-D" if is_batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {dims}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
