"""nn.functional: padding."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import ops
from rushlight.ir.node import const_node
from rushlight.tensors.apply import apply
from rushlight.tensors.autocast import STATE
from rushlight.tensors.autocast_rules import in_float32
from rushlight.tensors.creation import arange, number_node
from rushlight.tensors.functions_shape import flip
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.tensor import Tensor, new_tensor


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """(before, after) for the last dim first. Negative amounts cut."""
    amounts = [int(p) for p in pad]
    if len(amounts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(amounts) // 2 > input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(amounts)} and input of dimension {input.dim()}"
        )
    pairs = {
        input.dim() - 1 - i: (amounts[2 * i], amounts[2 * i + 1]) for i in range(len(amounts) // 2)
    }
    for dim, (low, high) in pairs.items():
        cut_low, cut_high = max(-low, 0), max(-high, 0)
        if mode == "replicate" and (cut_low or cut_high):
            size = input._shape[dim]
            input = input.index_select(dim, arange(-low, size + high).clamp(0, size - 1))
            pairs[dim] = (0, 0)
        elif cut_low or cut_high:
            input = narrow(input, dim, cut_low, input._shape[dim] - cut_low - cut_high)
    if mode != "constant":
        # As in PyTorch: autocast's list has no reflection of three dimensions.
        if STATE.dtype is not None and (
            mode == "replicate" or (mode == "reflect" and len(pairs) < 3)
        ):
            input = in_float32(input)
        for dim, (low, high) in sorted(pairs.items(), reverse=True):
            input = _pad_dim(input, dim, max(low, 0), max(high, 0), mode)
        return input
    lows = tuple(max(pairs.get(d, (0, 0))[0], 0) for d in range(input.dim()))
    highs = tuple(max(pairs.get(d, (0, 0))[1], 0) for d in range(input.dim()))
    if not any(lows) and not any(highs):
        return input.clone()
    # Its repr tells -0.0 apart.
    plain = value is None or repr(value) in ("0", "0.0")
    fill = const_node(0, input._dtype) if plain else number_node(value, input._dtype)
    args = (input, new_tensor(fill), lows, highs, (0,) * input.dim())
    return apply(ops.pad, args, label="ConstantPadNdBackward0")


def _pad_dim(input: Tensor, dim: int, low: int, high: int, mode: str) -> Tensor:
    size = input._shape[dim]
    if mode == "reflect":
        if max(low, high) >= size:
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({low}, {high}) at dimension {dim} of input {list(input._shape)}"
            )
        before = flip(narrow(input, dim, 1, low), dim) if low else None
        after = flip(narrow(input, dim, size - 1 - high, high), dim) if high else None
    elif mode == "replicate":

        def edge(at: int, count: int) -> Tensor:
            shape = [count if d == dim else -1 for d in range(input.dim())]
            return narrow(input, dim, at, 1).expand(shape)

        before = edge(0, low) if low else None
        after = edge(size - 1, high) if high else None
    elif mode == "circular":
        if max(low, high) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        before = narrow(input, dim, size - low, low) if low else None
        after = narrow(input, dim, 0, high) if high else None
    else:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    parts = [part for part in (before, input, after) if part is not None]
    return apply(ops.cat, (parts, dim)) if len(parts) > 1 else input
