"""torch.fft: transforms forward and back, over one dim, two or many, of real and complex numbers.

In: a tensor, sizes to cut or pad to, dims, and a norm. Out: one or two transforms of ops/fft.py.
An hfft is the transform to real numbers forward, an ihfft its inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import DType
from rushlight.ir.node import const_node
from rushlight.tensors.apply import apply
from rushlight.tensors.autocast_rules import follow_fft
from rushlight.tensors.creation import arange
from rushlight.tensors.functions_complex import conj_physical
from rushlight.tensors.functions_shape import roll
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.numbers import Defaults
from rushlight.tensors.out import finish, write_out
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def _norm(name: str | None, forward: bool) -> str:
    """What the result of a transform is divided by."""
    if name is None or name == "backward":
        return "none" if forward else "count"
    if name == "forward":
        return "count" if forward else "none"
    if name == "ortho":
        return "root"
    raise RuntimeError(f'Invalid normalization mode: "{name}"')


def _floating(input: Tensor) -> Tensor:
    return input if input._dtype.is_inexact else apply(ops.cast, (input, Defaults.dtype))


def _complex(input: Tensor) -> Tensor:
    input = _floating(input)
    return apply(ops.cast, (input, input._dtype.to_complex()))


def _check_supported(input: Tensor) -> Tensor:
    if input._dtype.to_real().itemsize == 2:
        raise RuntimeError(f"Unsupported dtype {input._dtype.scalar_name}")
    return input


def _wrap(dim: int, ndim: int) -> int:
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
            f"but got {dim})"
        )
    return dim % ndim


def _check_points(count: int) -> None:
    if count < 1:
        raise RuntimeError(f"Invalid number of data points ({count}) specified")


def _resized(input: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Cut, or padded with 0 at the end, along dims; a size of -1 changes nothing."""
    high = [0] * input.dim()
    for dim, size in zip(dims, sizes, strict=True):
        have = input._shape[dim]
        if size == -1:
            continue
        if size < have:
            input = narrow(input, dim, 0, size)
        high[dim] = max(0, size - have)
    if not any(high):
        return input
    fill = const_node(0, input._dtype)
    return apply(ops.pad, (input, fill, (0,) * input.dim(), tuple(high), (0,) * input.dim()))


def _c2c(input: Tensor, dims: Sequence[int], norm: str, forward: bool) -> Tensor:
    if not dims:
        return input
    args = (_check_supported(input), tuple(dims), norm, forward)
    return apply(ops.fft_c2c, args, label="FftC2CBackward0")


def _r2c(input: Tensor, dims: Sequence[int], norm: str, onesided: bool) -> Tensor:
    args = (_check_supported(input), tuple(dims), norm, onesided)
    return apply(ops.fft_r2c, args, label="FftR2CBackward0")


def _c2r(input: Tensor, dims: Sequence[int], norm: str, size: int) -> Tensor:
    args = (_check_supported(input), tuple(dims), norm, bool(size % 2))
    return apply(ops.fft_c2r, args, label="FftC2RBackward0")


def transformed(frames: Tensor, norm: str, onesided: bool) -> Tensor:
    """Forward over the last dim; of real numbers half of it or all."""
    if frames._dtype.is_complex:
        return _c2c(frames, (frames.dim() - 1,), norm, True)
    return _r2c(frames, (frames.dim() - 1,), norm, onesided)


def to_complex_numbers(spectra: Tensor, norm: str) -> Tensor:
    """Back over the last dim."""
    return _c2c(spectra, (spectra.dim() - 1,), norm, False)


def to_real_numbers(spectra: Tensor, norm: str, size: int) -> Tensor:
    """Back over the last dim, of half of the numbers, to `size` real ones."""
    return _c2r(spectra, (spectra.dim() - 1,), norm, size)


def _real_only(name: str, input: Tensor) -> Tensor:
    if input._dtype.is_complex:
        raise RuntimeError(
            f"{name} expects a real input tensor, but got {input._dtype.scalar_name}"
        )
    return _floating(input)


# One dim -----------------------------------------------------------------------------------


def _along(input: Tensor, n: int | None, dim: int) -> tuple[Tensor, int]:
    dim = _wrap(dim, input.dim())
    _check_points(input._shape[dim] if n is None else n)
    return (input if n is None else _resized(input, (dim,), (n,))), dim


def _one_dim(name: str, forward: bool) -> Callable:
    """fft and ifft."""

    def function(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x, dim = _along(_floating(input), n, dim)
        how = _norm(norm, forward)
        if x._dtype.is_complex:
            return finish(_c2c(x, (dim,), how, forward), out)
        result = _r2c(x, (dim,), how, False)
        return finish(result if forward else conj_physical(result), out)

    return _named(function, name)


def _half(name: str, forward: bool) -> Callable:
    """rfft and ihfft: of real numbers."""

    def function(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x, dim = _along(_real_only(name, input), n, dim)
        result = _r2c(x, (dim,), _norm(norm, forward), True)
        return finish(result if forward else conj_physical(result), out)

    return _named(function, name)


def _whole(name: str, forward: bool) -> Callable:
    """irfft and hfft: to real numbers."""

    def function(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x = _complex(input)
        dim = _wrap(dim, x.dim())
        size = 2 * (x._shape[dim] - 1) if n is None else n
        _check_points(size)
        x = _resized(x, (dim,), (size // 2 + 1,))
        x = conj_physical(x) if forward else x
        return finish(_c2r(x, (dim,), _norm(norm, forward), size), out)

    return _named(function, name)


# Many dims ---------------------------------------------------------------------------------


def _shape_and_dims(input: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """The sizes to transform and their dims."""
    ndim = input.dim()
    sizes = [s] if isinstance(s, int) else None if s is None else list(s)
    dims = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    if dims is not None:
        dims = [_wrap(d, ndim) for d in dims]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if sizes is not None:
        if dims is not None and len(dims) != len(sizes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(sizes) > ndim:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions."
            )
        if dims is None:
            dims = list(range(ndim - len(sizes), ndim))
        sizes = [input._shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)]
    else:
        dims = list(range(ndim)) if dims is None else dims
        sizes = [input._shape[d] for d in dims]
    for size in sizes:
        _check_points(size)
    return sizes, dims


def _last_of_whole(input: Tensor, name: str, s: Any, dim: Any) -> tuple[list[int], list[int], int]:
    """As above for transforms to real numbers, and the size of the last dim of the result."""
    given = [s] if isinstance(s, int) else None if s is None else list(s)
    sizes, dims = _shape_and_dims(input, None if given is None else [*given[:-1], -1], dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = 2 * (input._shape[dims[-1]] - 1)
    if given is not None and given[-1] != -1:
        last = given[-1]
    _check_points(last)
    return [*sizes[:-1], last // 2 + 1], dims, last


def _many(name: str, forward: bool, two: bool) -> Callable:
    """fftn and ifftn, fft2 and ifft2."""

    def function(
        input: Tensor, s: Any = None, dim: Any = (-2, -1) if two else None,
        norm: str | None = None, *, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        sizes, dims = _shape_and_dims(input, s, dim)
        x = _resized(_complex(input), dims, sizes)
        return finish(_c2c(x, dims, _norm(norm, forward), forward), out)

    return _named(function, name)


def _many_half(name: str, forward: bool, two: bool) -> Callable:
    """rfftn and ihfftn."""

    def function(
        input: Tensor, s: Any = None, dim: Any = (-2, -1) if two else None,
        norm: str | None = None, *, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x = _real_only(name, input)
        sizes, dims = _shape_and_dims(x, s, dim)
        if not dims:
            raise RuntimeError(f"{name} must transform at least one axis")
        x, how = _resized(x, dims, sizes), _norm(norm, forward)
        if forward:
            return finish(_r2c(x, dims, how, True), out)
        first = conj_physical(_r2c(x, dims[-1:], how, True))
        return finish(_c2c(first, dims[:-1], how, False), out)

    return _named(function, name)


def _many_whole(name: str, forward: bool, two: bool) -> Callable:
    """irfftn and hfftn."""

    def function(
        input: Tensor, s: Any = None, dim: Any = (-2, -1) if two else None,
        norm: str | None = None, *, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        sizes, dims, last = _last_of_whole(input, name, s, dim)
        x, how = _resized(_complex(input), dims, sizes), _norm(norm, forward)
        if not forward:
            return finish(_c2r(x, dims, how, last), out)
        x = _c2c(x, dims[:-1], how, True)
        return finish(_c2r(conj_physical(x), dims[-1:], how, last), out)

    return _named(function, name)


def _named(function: Callable, name: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = DOCS[name.removesuffix("2").removesuffix("n")]
    return function


DOCS = {
    "fft": "The discrete Fourier transform.",
    "ifft": "The inverse of the discrete Fourier transform.",
    "rfft": "The transform of real numbers: the half that is not the conjugate of the rest.",
    "irfft": "The inverse of rfft: real numbers; `n` (the last of `s`) tells an odd size.",
    "hfft": "The transform of numbers that are the conjugate of their mirror: real numbers.",
    "ihfft": "The inverse of hfft.",
}
fft, ifft = _one_dim("fft", True), _one_dim("ifft", False)
rfft, ihfft = _half("rfft", True), _half("ihfft", False)
hfft, irfft = _whole("hfft", True), _whole("irfft", False)
fft2, ifft2 = _many("fft2", True, True), _many("ifft2", False, True)
fftn, ifftn = _many("fftn", True, False), _many("ifftn", False, False)
rfft2, ihfft2 = _many_half("rfft2", True, True), _many_half("ihfft2", False, True)
rfftn, ihfftn = _many_half("rfftn", True, False), _many_half("ihfftn", False, False)
hfft2, irfft2 = _many_whole("hfft2", True, True), _many_whole("irfft2", False, True)
hfftn, irfftn = _many_whole("hfftn", True, False), _many_whole("irfftn", False, False)


# Frequencies -------------------------------------------------------------------------------


def fftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: DType | None = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """The frequencies of the results of fft for samples d apart.

    >>> import rushlight as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    at = arange(n, dtype=dtype or Defaults.dtype, **options)
    half = (n + 1) // 2
    moved = apply(ops.where, (apply(ops.ge, (at, half)), at - n, at))
    return _frequencies(moved, n * d, out)


def rfftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: DType | None = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """The frequencies of the results of rfft for samples d apart."""
    return _frequencies(arange(n // 2 + 1, dtype=dtype or Defaults.dtype, **options), n * d, out)


def _frequencies(at: Tensor, span: float, out: Tensor | None) -> Tensor:
    result = apply(ops.mul, (at, 1.0 / span))
    return result if out is None else write_out(out, result)


def _shifted(input: Tensor, dim: Any, back: bool) -> Tensor:
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [_wrap(d, input.dim()) for d in dims]
    if not dims:
        return input
    return roll(input, [(input._shape[d] + back) // 2 for d in dims], dims)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The frequency 0 in the middle."""
    return _shifted(input, dim, False)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of fftshift."""
    return _shifted(input, dim, True)


FFT: dict[str, Callable] = by_name(
    fft, ifft, rfft, irfft, hfft, ihfft, fft2, ifft2, rfft2, irfft2, hfft2, ihfft2, fftn, ifftn,
    rfftn, irfftn, hfftn, ihfftn, fftfreq, rfftfreq, fftshift, ifftshift,
)  # fmt: skip
FFT = {name: follow_fft(function, name) for name, function in FFT.items()}
