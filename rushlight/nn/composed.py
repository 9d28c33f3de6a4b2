"""Functions of `nn.functional` that are a few public tensor operations each."""

from __future__ import annotations

import math

import rushlight as torch

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def reduced(loss: torch.Tensor, reduction: str) -> torch.Tensor:
    """Apply a loss's `reduction`."""
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(f"{reduction} is not a valid value for reduction")


def bilinear(
    input1: torch.Tensor,
    input2: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return x1 @ weight[o] @ x2 for each output feature o."""
    out_features, in1_features, in2_features = weight.shape
    columns = weight.permute(1, 0, 2).reshape(in1_features, out_features * in2_features)
    left = (input1 @ columns).reshape(*input1.shape[:-1], out_features, in2_features)
    out = (left * input2.unsqueeze(-2)).sum(-1)
    return out if bias is None else out + bias


def huber_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    reduction: str = "mean",
    weight: torch.Tensor | None = None,
    delta: float = 1.0,
) -> torch.Tensor:
    """Return the squared error below `delta` and the absolute error above it."""
    error = (input - target).abs()
    loss = torch.where(error <= delta, 0.5 * error * error, delta * (error - 0.5 * delta))
    return reduced(loss if weight is None else loss * weight, reduction)


def dropout_channels(
    input: torch.Tensor, p: float, training: bool, inplace: bool, space_dims: int
) -> torch.Tensor:
    """Drop whole channels; the last `space_dims` dimensions go together."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    mask_shape = list(input.shape[: input.dim() - space_dims]) + [1] * space_dims
    mask = torch.zeros(mask_shape, dtype=input.dtype, device=input.device)
    if p < 1.0:
        mask = mask.bernoulli_(1 - p) / (1 - p)
    return input.mul_(mask) if inplace else input * mask


def dropout1d(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """Drop whole channels of (N, C, L) or (C, L)."""
    return dropout_channels(input, p, training, inplace, 1)


def dropout2d(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """Drop whole channels of (N, C, H, W); for three dimensions (N, C, L) as PyTorch does."""
    return dropout_channels(input, p, training, inplace, input.dim() - 2)


def dropout3d(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return dropout_channels(input, p, training, inplace, 3)


def threshold(
    input: torch.Tensor, threshold: float, value: float, inplace: bool = False
) -> torch.Tensor:
    """Replace what is not above `threshold` by `value`."""
    out = torch.where(input > threshold, input, torch.full_like(input, value))
    return input.copy_(out) if inplace else out


def selu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Return scale * elu(x, alpha) with the two constants of self-normalizing networks."""
    negative = SELU_ALPHA * torch.expm1(input.clamp(max=0))
    out = SELU_SCALE * torch.where(input > 0, input, negative)
    return input.copy_(out) if inplace else out


def celu(input: torch.Tensor, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:
    """Return max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    out = torch.where(input > 0, input, alpha * torch.expm1(input.clamp(max=0) / alpha))
    return input.copy_(out) if inplace else out


def prelu(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply negative values by a weight, one for all or one per channel."""
    if weight.numel() == 1:
        weight = weight.reshape(())
    elif input.dim() > 1:
        weight = weight.view(-1, *([1] * (input.dim() - 2)))
    return torch.where(input >= 0, input, input * weight)


def rrelu(
    input: torch.Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> torch.Tensor:
    """Multiply negative values by a random slope, in evaluation by the mean slope."""
    slope = torch.empty_like(input).uniform_(lower, upper) if training else (lower + upper) / 2
    out = torch.where(input >= 0, input, input * slope)
    return input.copy_(out) if inplace else out


def logsigmoid(input: torch.Tensor) -> torch.Tensor:
    """Return log(sigmoid(x)) without overflow."""
    return input.clamp(max=0) - torch.log1p(torch.exp(-input.abs()))


def softsign(input: torch.Tensor) -> torch.Tensor:
    """Return x / (1 + |x|)."""
    return input / (1 + input.abs())


def tanhshrink(input: torch.Tensor) -> torch.Tensor:
    """Return x - tanh(x)."""
    return input - input.tanh()


def hardshrink(input: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    """Set values in [-lambd, lambd] to zero."""
    return torch.where(input.abs() > lambd, input, torch.zeros_like(input))


def softshrink(input: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    """Move values towards zero by `lambd`."""
    return torch.where(
        input > lambd,
        input - lambd,
        torch.where(input < -lambd, input + lambd, torch.zeros_like(input)),
    )


def hardsigmoid(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Return relu6(x + 3) / 6."""
    out = (input + 3).clamp(0, 6) / 6
    return input.copy_(out) if inplace else out


def softmin(
    input: torch.Tensor, dim: int | None = None, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return softmax(-x)."""
    if dim is None:  # the choice of PyTorch's first releases
        dim = 0 if input.dim() in (0, 1, 3) else 1
    return torch.softmax(-input, dim, dtype=dtype)


def pixel_shuffle(input: torch.Tensor, upscale_factor: int) -> torch.Tensor:
    """Turn groups of channels into finer pixels: (*, C*r*r, H, W) -> (*, C, H*r, W*r)."""
    *batch, channels, height, width = input.shape
    r = upscale_factor
    lead = math.prod(batch)
    blocks = input.reshape(lead, channels // (r * r), r, r, height, width)
    fine = blocks.permute(0, 1, 4, 2, 5, 3)
    return fine.reshape(*batch, channels // (r * r), height * r, width * r)
