"""Functions that fill a tensor with starting values, in place and outside autograd.

Sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming), Saxe et al. 2013 (orthogonal),
Martens 2010 (sparse).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)

Generator = torch.Generator | None
ONE_GAIN = {"linear", "sigmoid", "conv1d", "conv2d", "conv3d"} | {
    f"conv_transpose{n}d" for n in (1, 2, 3)
}
FIXED_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the scale of values across a nonlinearity.

    Example:
        >>> calculate_gain("tanh")
        1.6666666666666667
    """
    if nonlinearity in ONE_GAIN:
        return 1
    if nonlinearity in FIXED_GAINS:
        return FIXED_GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


@torch.no_grad()
def uniform_(
    tensor: torch.Tensor, a: float = 0.0, b: float = 1.0, generator: Generator = None
) -> torch.Tensor:
    """Fill with values from the uniform distribution on [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@torch.no_grad()
def normal_(
    tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator = None
) -> torch.Tensor:
    """Fill with values from the normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _draw_accepted(
    draw: Callable[[], torch.Tensor], accept: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Draw whole tensors until every element has been accepted once."""
    result = draw()
    pending = ~accept(result)
    while pending.any():
        fresh = draw()
        result = torch.where(pending, fresh, result)
        pending = pending & ~accept(fresh)
    return result


@torch.no_grad()
def trunc_normal_(
    tensor: torch.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator = None,
) -> torch.Tensor:
    """Fill with values from the normal distribution, redrawing those outside [a, b].

    Where few normal values would fall inside, uniform ones are drawn and accepted with the
    probability that their density has against the highest density in [a, b].
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def draw_normal() -> torch.Tensor:
        return torch.empty_like(tensor).normal_(mean, std, generator=generator)

    def is_inside(values: torch.Tensor) -> torch.Tensor:
        low, high = values.new_tensor(a), values.new_tensor(b)
        return (values >= low) & (values <= high)

    def draw_uniform() -> torch.Tensor:
        return torch.empty_like(tensor).uniform_(a, b, generator=generator)

    def is_under_density(values: torch.Tensor) -> torch.Tensor:
        mode = max(a, min(mean, b))
        log_peak = -0.5 * ((mode - mean) / std) ** 2
        log_ratio = ((values - mean) / std) ** 2 * -0.5 - log_peak
        return torch.empty_like(values).uniform_(generator=generator).log() <= log_ratio

    inside_share = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    if inside_share > 0.3:
        return tensor.copy_(_draw_accepted(draw_normal, is_inside))
    return tensor.copy_(_draw_accepted(draw_uniform, is_under_density))


@torch.no_grad()
def constant_(tensor: torch.Tensor, val: float) -> torch.Tensor:
    """Fill with one value."""
    return tensor.fill_(val)


@torch.no_grad()
def ones_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill with ones."""
    return tensor.fill_(1.0)


@torch.no_grad()
def zeros_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill with zeros."""
    return tensor.zero_()


@torch.no_grad()
def eye_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    return tensor.copy_(torch.eye(rows, columns, dtype=tensor.dtype, device=tensor.device))


@torch.no_grad()
def dirac_(tensor: torch.Tensor, groups: int = 1) -> torch.Tensor:
    """Fill a convolution weight so that it passes its input through, per group."""
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    per_group = out_channels // groups
    center = tuple(size // 2 for size in kernel)
    for group in range(groups):
        for channel in range(min(per_group, in_channels)):
            tensor[(group * per_group + channel, channel, *center)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    out_features, in_features, *kernel = tensor.shape
    receptive_field = math.prod(kernel)
    return in_features * receptive_field, out_features * receptive_field


def _calculate_correct_fan(tensor: torch.Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(
    tensor: torch.Tensor, gain: float = 1.0, generator: Generator = None
) -> torch.Tensor:
    """Fill uniformly with variance 2 * gain**2 / (fan_in + fan_out)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(
    tensor: torch.Tensor, gain: float = 1.0, generator: Generator = None
) -> torch.Tensor:
    """Fill normally with variance 2 * gain**2 / (fan_in + fan_out)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor: torch.Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: torch.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> torch.Tensor:
    """Fill uniformly with variance gain**2 / fan; `a` is the slope of a leaky ReLU."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: torch.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> torch.Tensor:
    """Fill normally with variance gain**2 / fan; `a` is the slope of a leaky ReLU."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@torch.no_grad()
def orthogonal_(tensor: torch.Tensor, gain: float = 1, generator: Generator = None) -> torch.Tensor:
    """Fill with a (semi-)orthogonal matrix; dimensions after the first count as one."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    random = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    q, r = torch.linalg.qr(random.t() if rows < columns else random)
    # The signs make the distribution uniform: QR alone fixes them by its algorithm.
    q = q * torch.diagonal(r).sign()
    q = q.t() if rows < columns else q
    return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


@torch.no_grad()
def sparse_(
    tensor: torch.Tensor, sparsity: float, std: float = 0.01, generator: Generator = None
) -> torch.Tensor:
    """Fill a matrix normally, then set a share of each column to zero."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zero_count = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        # The generator stays out of here, as in PyTorch.
        tensor[torch.randperm(rows)[:zero_count], column] = 0
    return tensor


# --- the names without an underscore, from before in-place functions had one ------------------


def _old(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    new_name = function.__name__
    old_name = new_name[:-1]

    def renamed(*args: Any, **kwargs: Any) -> torch.Tensor:
        warnings.warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = old_name
    renamed.__doc__ = f"The old name of `{new_name}`."
    return renamed


uniform, normal, constant, eye, dirac = map(_old, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_old, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_old, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_old, (orthogonal_, sparse_))
