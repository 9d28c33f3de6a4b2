"""torch.stft and torch.istft: Fourier transforms of windows of a signal, and the signal back.

Frames are views of the signal (`unfold`), so only their product with the window is computed before
the transform. The way back adds the windows of all frames up and divides by what they weigh.
"""

from __future__ import annotations

from typing import Any

from rushlight import ops
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import ones
from rushlight.tensors.functional_image import pad
from rushlight.tensors.functions_complex import view_as_real
from rushlight.tensors.functions_fft import to_complex_numbers, to_real_numbers, transformed
from rushlight.tensors.functions_slices import narrow, unfold
from rushlight.tensors.functions_view import expand, reshape, squeeze, transpose, unsqueeze
from rushlight.tensors.interop import look
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.type_names import expand_name

SMALLEST_WEIGHT = 1e-11


def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The transforms of windows of a signal (or of a batch of signals): frequencies by frames.

    >>> import rushlight as torch
    >>> window = torch.hann_window(8)
    >>> torch.stft(torch.ones(16), 8, window=window, return_complex=True).shape
    torch.Size([5, 9])
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    complex_in = input._dtype.is_complex or (window is not None and window._dtype.is_complex)
    if return_complex is None and not complex_in:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )
    if center and input.dim() in (1, 2):
        extended = reshape(input, (*(1,) * (3 - input.dim()), *input._shape))
        sides = [n_fft // 2, n_fft // 2]
        input = reshape(pad(extended, sides, pad_mode), (*input._shape[:-1], -1))
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    _check_signal(input, n_fft, hop, length, window)
    if onesided and complex_in:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    batch = input if input.dim() == 2 else unsqueeze(input, 0)
    if align_to_window:
        left = (n_fft - length) // 2
        batch = pad(batch, [left, n_fft - length - left])
    frames = unfold(batch, -1, n_fft, hop)
    shape = _centered(window, length, n_fft)
    frames = frames if shape is None else apply(ops.mul, (frames, shape))
    half = not complex_in if onesided is None else onesided
    result = transpose(transformed(frames, "root" if normalized else "none", half), 1, 2)
    result = squeeze(result, 0) if input.dim() == 1 else result
    wants_complex = complex_in if return_complex is None else return_complex
    return result if wants_complex else view_as_real(result)


def _check_signal(input: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None) -> None:
    if not input._dtype.is_inexact:
        raise RuntimeError("stft: expected a tensor of floating point or complex values")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.dim()}D")
    size = input._shape[-1]
    if not 0 < n_fft <= size:
        raise RuntimeError(f"stft: expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and window._shape != (length,):
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window._shape)}"
        )


def _centered(window: Tensor | None, length: int, n_fft: int) -> Tensor | None:
    """The window in the middle of n_fft zeros."""
    if length == n_fft:
        return window
    left = (n_fft - length) // 2
    base = ones(length) if window is None else window
    return pad(base, [left, n_fft - length - left])


def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose stft is nearest to the input."""
    hop = n_fft // 4 if hop_length is None else hop_length
    window_length = n_fft if win_length is None else win_length
    half = _is_half(input, n_fft, onesided)
    _check_transforms(input, n_fft, hop, window_length, window, half)
    if half and return_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    batch = input if input.dim() == 3 else unsqueeze(input, 0)
    norm, spectra = "root" if normalized else "count", transpose(batch, 1, 2)
    if return_complex:
        frames = to_complex_numbers(spectra, norm)
    else:
        kept = spectra if half else narrow(spectra, -1, 0, n_fft // 2 + 1)
        frames = to_real_numbers(kept, norm, n_fft)
    shape = _centered(window, window_length, n_fft)
    shape = ones(n_fft, dtype=input._dtype.to_real()) if shape is None else shape
    signal = _joined(apply(ops.mul, (frames, shape)), shape, n_fft, hop, center, length)
    return squeeze(signal, 0) if input.dim() == 2 else signal


def _is_half(input: Tensor, n_fft: int, onesided: bool | None) -> bool:
    if onesided is not None or input.dim() < 2:
        return bool(onesided)
    return input._shape[-2] != n_fft


def _check_transforms(
    input: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None, half: bool
) -> None:
    if not input._dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    name = f"istft({expand_name(input._dtype)}{list(input._shape)}, n_fft={n_fft})"
    if not input.numel():
        raise RuntimeError(f"{name} : input tensor cannot be empty.")
    if input.dim() not in (2, 3):
        raise RuntimeError(f"{name} : expected a tensor with 2 or 3 dimensions")
    rows, want = input._shape[-2], n_fft // 2 + 1 if half else n_fft
    if rows != want:
        raise RuntimeError(
            f"{name} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft{' / 2 + 1' if half else ''} when onesided={half}, but got {rows}"
        )
    if not 0 < hop <= length:
        raise RuntimeError(f"{name} : expected 0 < hop_length <= win_length")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name} : expected 0 < win_length <= n_fft")
    if window is not None and window._shape != (length,):
        raise RuntimeError(
            f"{name} : Invalid window shape. window has to be 1D and length of `win_length`"
        )


def _joined(
    frames: Tensor, shape: Tensor, n_fft: int, hop: int, center: bool, length: int | None
) -> Tensor:
    """Frames added up where they came from, over the weight of the windows there."""
    count = frames._shape[1]
    whole = n_fft + hop * (count - 1)
    total = apply(ops.fold_dim, (frames, 1, whole, hop, 1))
    squares = expand(apply(ops.mul, (shape, shape)), (1, count, n_fft))
    weight = apply(ops.fold_dim, (squares, 1, whole, hop, 1))
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else whole - start
    inside = min(stop, whole) - start
    total, weight = narrow(total, 1, start, inside), narrow(weight, 1, start, inside)
    if not (abs(look(weight.detach())) > SMALLEST_WEIGHT).all():
        raise RuntimeError("istft: window overlap add min: 1")
    signal = apply(ops.div, (total, weight))
    return pad(signal, [0, stop - whole]) if stop > whole else signal


METHODS: dict[str, Any] = by_name(stft, istft)
FUNCTIONS = METHODS
