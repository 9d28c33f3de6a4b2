"""Random tensors: distributions as graphs over counter-based random bits."""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import DType, float32, float64, int64, uint32
from rushlight.ir.node import Node, const_node, scalar_node
from rushlight.tensors.creation import beside, made, number_node, wanted_size
from rushlight.tensors.forms import linked
from rushlight.tensors.functions_complex import view_as_real
from rushlight.tensors.functions_view import expand
from rushlight.tensors.generator import Generator, default_generator
from rushlight.tensors.inplace import assign, check_inplace
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.out import write_out
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, new_tensor


def _wide(dtype: DType) -> DType:
    if dtype.is_complex:
        return dtype.compute
    return float64 if dtype is float64 else float32


def uniform_node(shape: tuple, dtype: DType, generator: Generator | None) -> Node:
    """In [0, 1): 24 bits per float32 number, 53 per float64 (two words)."""
    if dtype.is_complex:
        parts = [uniform_node(shape, dtype.to_real(), generator) for _ in range(2)]
        return ops.complex_.node(*parts)
    source = generator or default_generator
    high = source.bits(shape)
    if dtype is float64:
        low = source.bits(shape)
        a = ops.cast.node(ops.shift_right.node(high, const_node(5, uint32)), float64)
        b = ops.cast.node(ops.shift_right.node(low, const_node(6, uint32)), float64)
        return (a * float(1 << 26) + b) * (1.0 / (1 << 53))
    keep = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype.name]
    top = ops.cast.node(ops.shift_right.node(high, const_node(32 - keep, uint32)), float32)
    return _as(top * (1.0 / (1 << keep)), dtype)


def _as(node: Node, dtype: DType) -> Node:
    return node if node.dtype is dtype else ops.cast.node(node, dtype)


def normal_node(shape: tuple, dtype: DType, generator: Generator | None) -> Node:
    """Box and Muller's method, in float32 (float64 for float64). A complex number has variance 1:
    each of its parts 1/2."""
    if dtype.is_complex:
        parts = [normal_node(shape, dtype.to_real(), generator) for _ in range(2)]
        return ops.complex_.node(*[part * math.sqrt(0.5) for part in parts])
    wide = _wide(dtype)
    u = uniform_node(shape, wide, generator)
    angle = uniform_node(shape, wide, generator) * (2 * math.pi)
    radius = ops.sqrt.node(ops.log.node(1.0 - u) * -2.0)
    return _as(radius * ops.cos.node(angle), dtype)


def int_node(low: int, high: int, shape: tuple, generator: Generator | None) -> Node:
    """int64 in [low, high)."""
    source = generator or default_generator
    span = high - low
    bits = ops.cast.node(source.bits(shape), int64)
    if span > 1 << 32:
        more = ops.cast.node(source.bits(shape), int64)
        word = bits * (1 << 31) + ops.shift_right.node(more, const_node(1, int64))
        word = ops.bitwise_and.node(word, const_node((1 << 63) - 1, int64))
    else:
        word = bits
    if span < 1 << 63:
        word = ops.remainder.node(word, scalar_node(span, int64))
    return ops.add.node(word, scalar_node(low, int64))


def _check_drawn(dtype: DType, name: str) -> None:
    if not dtype.is_inexact:
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


def rand(*size: Any, generator: Any = None, dtype: DType | None = None, **options: Any) -> Tensor:
    shape, dtype = wanted_size(size, options), dtype or Defaults.dtype
    _check_drawn(dtype, "check_uniform_bounds")
    return made(uniform_node(shape, dtype, generator), **options)


def randn(*size: Any, generator: Any = None, dtype: DType | None = None, **options: Any) -> Tensor:
    shape, dtype = wanted_size(size, options), dtype or Defaults.dtype
    _check_drawn(dtype, "normal_kernel_cpu")
    return made(normal_node(shape, dtype, generator), **options)


def randint(*args: Any, generator: Any = None, dtype: DType = int64, **options: Any) -> Tensor:
    """randint(high, size), randint(low, high, size)."""
    low, high, size = _int_range(args, options)
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    node = int_node(low, high, wanted_size((size,), options), generator)
    return made(_as(node, dtype or int64), **options)


def _int_range(args: tuple, options: dict) -> tuple[int, int, Any]:
    values = list(args)
    size = options.pop("size", None)
    if size is None:
        size = values.pop()
    low = options.pop("low", None)
    high = options.pop("high", None)
    if high is None:
        high = values.pop()
    if low is None:
        low = values.pop() if values else 0
    return int(low), int(high), size


def rand_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    return rand(input._shape, dtype=dtype or input._dtype, **beside(input, options))


def randn_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    return randn(input._shape, dtype=dtype or input._dtype, **beside(input, options))


def randint_like(input: Tensor, *args: Any, dtype: DType | None = None, **options: Any) -> Tensor:
    return randint(*args, input._shape, dtype=dtype or input._dtype, **beside(input, options))


def randperm(
    n: int, *, generator: Any = None, dtype: DType | None = None, **options: Any
) -> Tensor:
    """0 .. n-1 in random order: the order of 63 random bits each."""
    keys = int_node(0, 1 << 63, (n,), generator)
    node = ops.argsort_.node(keys, 0, False)
    return made(_as(node, dtype or int64), **options)


def _bernoulli_node(p: Node, shape: tuple, dtype: DType, generator: Any) -> Node:
    wide = float64 if p.dtype is float64 else float32
    u = uniform_node(shape, wide, generator)
    return ops.cast.node(ops.lt.node(u, _as(p, wide)), dtype)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    chance = input._value() if p is None else number_node(p, _wide(input._dtype))
    if input._dtype.kind != "float":
        raise RuntimeError(f"Expected floating point probabilities, got {input._dtype}")
    drawn = new_tensor(_bernoulli_node(chance, input._shape, input._dtype, generator))
    return linked(drawn, input)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """Indices drawn by weight: the smallest of exponential times, one race per draw."""
    if input.dim() not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if input._dtype.kind != "float":
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input._dtype}"
        )
    count = input._shape[-1]
    if not replacement and num_samples > count:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    weights = input._value()
    lead = input._shape[:-1]
    if replacement:
        wide = (*lead, num_samples, count)
        weights = ops.reshape.node(weights, (*lead, 1, count))
        race = _race(ops.expand.node(weights, wide), wide, generator)
        return new_tensor(ops.argmin_.node(race, (len(wide) - 1,)))
    race = _race(weights, input._shape, generator)
    order = ops.argsort_.node(race, len(lead), False)
    zeros, ones = (0,) * input.dim(), (1,) * input.dim()
    return new_tensor(ops.slice_.node(order, zeros, (*lead, num_samples), ones))


def _race(weights: Node, shape: tuple, generator: Any) -> Node:
    times = exponential_node(shape, _wide(weights.dtype), generator)
    return ops.div.node(times, _as(weights, times.dtype))


def exponential_node(shape: tuple, dtype: DType, generator: Any) -> Node:
    return -ops.log.node(1.0 - uniform_node(shape, dtype, generator))


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None,
    out: Tensor | None = None, dtype: DType | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    """mean + std * standard normal numbers; mean and std are numbers or tensors."""
    if size is None:
        tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
        like = tensors[0] * tensors[1] if len(tensors) == 2 else tensors[0]
        size, dtype = like._shape, dtype or like._dtype
    drawn = (randn(size, generator=generator, dtype=dtype, **options) * std + mean).detach()
    for like in (mean, std):
        drawn = linked(drawn, like) if isinstance(like, Tensor) else drawn
    return drawn if out is None else write_out(out, drawn)


# In place ----------------------------------------------------------------------------------


def _store(tensor: Tensor, node: Node) -> Tensor:
    check_inplace(tensor)
    return assign(tensor, new_tensor(_as(node, tensor._dtype)))


def _float_only(tensor: Tensor, name: str) -> DType:
    if tensor._dtype.kind != "float":
        raise NotImplementedError(f"\"{name}\" not implemented for '{tensor._dtype.scalar_name}'")
    return _wide(tensor._dtype)


def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None,
             **named: Any) -> Tensor:  # fmt: skip
    low, high = named.get("from", from_), to
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
        )
    if self._dtype.is_complex:
        uniform_(view_as_real(self), low, high, generator=generator)
        return self
    _float_only(self, "check_uniform_bounds")
    unit = uniform_node(self._shape, self._dtype, generator)
    wide = _wide(self._dtype)
    span, start = scalar_node(float(high - low), wide), scalar_node(float(low), wide)
    return _store(self, ops.add.node(ops.mul.node(_as(unit, wide), span), start))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    wide = _wide(self._dtype) if self._dtype.is_inexact else _float_only(self, "normal_kernel_cpu")
    unit = normal_node(self._shape, wide, generator)
    scaled = ops.mul.node(unit, scalar_node(float(std), wide))
    return _store(self, ops.add.node(scaled, scalar_node(float(mean), wide)))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    chance = expand(p, self._shape)._value() if isinstance(p, Tensor) else number_node(p, float32)
    return _store(self, _bernoulli_node(chance, self._shape, self._dtype, generator))


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    wide = _float_only(self, "exponential_")
    node = exponential_node(self._shape, wide, generator)
    return _store(self, ops.div.node(node, scalar_node(float(lambd), wide)))


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    wide = _wide(self._dtype)
    node = exponential_node(self._shape, wide, generator)
    rate = scalar_node(-math.log1p(-p), wide)
    return _store(self, ops.ceil.node(ops.div.node(node, rate)))


def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None
) -> Tensor:
    wide = _float_only(self, "log_normal_")
    unit = normal_node(self._shape, wide, generator)
    scaled = ops.mul.node(unit, scalar_node(float(std), wide))
    return _store(self, ops.exp.node(ops.add.node(scaled, scalar_node(float(mean), wide))))


def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None
) -> Tensor:
    wide = _float_only(self, "cauchy_")
    turn = ops.tan.node((uniform_node(self._shape, wide, generator) - 0.5) * math.pi)
    scaled = ops.mul.node(turn, scalar_node(float(sigma), wide))
    return _store(self, ops.add.node(scaled, scalar_node(float(median), wide)))


def random_(self: Tensor, from_: int = 0, to: int | None = None, *, generator: Any = None,
            **named: Any) -> Tensor:  # fmt: skip
    low = named.get("from", from_)
    if to is None and low:
        low, to = 0, low
    if to is None:
        limits = {"float32": 1 << 24, "float64": 1 << 53, "float16": 1 << 11, "bfloat16": 1 << 8,
                  "bool": 2, "uint8": 256}  # fmt: skip
        to = limits.get(self._dtype.name, 1 << (8 * self._dtype.itemsize - 1))
    return _store(self, int_node(low, to, self._shape, generator))


METHODS = by_name(
    uniform_, normal_, bernoulli_, exponential_, geometric_, log_normal_, cauchy_, random_,
    bernoulli, multinomial,
)  # fmt: skip
FUNCTIONS = by_name(
    rand, randn, randint, rand_like, randn_like, randint_like, randperm, bernoulli, multinomial,
    normal,
)  # fmt: skip
