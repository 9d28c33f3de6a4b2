"""What functions do with their operands inside autocast, by PyTorch's lists for the CPU.

In: tables of public functions. Out: the same tables, with the functions that PyTorch's autocast
names wrapped: their operands are cast, and inside them autocast is off. Products and convolutions
are not here: their records are cast as they are recorded (`autocast.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.base.dtypes import DType, float32, float64
from rushlight.tensors.apply import cast
from rushlight.tensors.autocast import STATE, each_float
from rushlight.tensors.tensor import Tensor

FLOAT32 = frozenset(
    """avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits grid_sample grid_sampler
    grid_sampler_2d grid_sampler_3d polar prod quantile nanquantile stft cdist trace
    view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse
    max_unpool1d max_unpool2d max_unpool3d adaptive_avg_pool3d
    adaptive_max_pool3d mse_loss cosine_embedding_loss nll_loss hinge_embedding_loss
    poisson_nll_loss smooth_l1_loss cross_entropy l1_loss huber_loss margin_ranking_loss
    soft_margin_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss ctc_loss kl_div
    fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices
    fractional_max_pool3d_with_indices lu geqrf qr svd triangular_solve
    fake_quantize_per_tensor_affine""".split()
)
LINALG_FLOAT32 = frozenset(
    """cond matrix_rank solve cholesky cholesky_ex svdvals eigvals eigvalsh inv inv_ex
    householder_product tensorinv tensorsolve qr svd eig eigh lstsq""".split()
)
FFT_FLOAT32 = frozenset(
    """fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft""".split()
)
LOWER = frozenset("prelu rnn_tanh rnn_relu vecdot".split())
# Made of products here, not in PyTorch.
AS_GIVEN = frozenset("mv dot vdot addmv".split())
LINALG_AS_GIVEN = frozenset(
    "lu lu_factor lu_factor_ex lu_solve ldl_factor ldl_factor_ex ldl_solve solve_ex "
    "solve_triangular slogdet".split()
)
WIDEST = frozenset("index_copy".split())


@contextmanager
def autocast_off() -> Iterator[None]:
    """Operands stay as they are."""
    before, STATE.dtype = STATE.dtype, None
    try:
        yield
    finally:
        STATE.dtype = before


def in_float32(tensor: Tensor) -> Tensor:
    """A float of 16 bits as float32, others as they are."""
    return tensor if tensor._dtype.itemsize >= 4 else cast(tensor, float32)


def in_low(tensor: Tensor) -> Tensor:
    """In the low dtype of autocast; float64 as it is."""
    low = STATE.dtype
    return tensor if tensor._dtype is float64 or low is None else cast(tensor, low)


def as_given(tensor: Tensor) -> Tensor:
    """No cast: autocast is only off."""
    return tensor


def follows(function: Callable, change: Callable[[Tensor], Tensor]) -> Callable:
    """The function that changes its operands first, and computes without autocast."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if STATE.dtype is None:
            return function(*args, **kwargs)
        args = each_float(args, change)
        out = kwargs.pop("out", None)
        kwargs = {key: each_float(value, change) for key, value in kwargs.items()}
        if out is not None:
            kwargs["out"] = out
        with autocast_off():
            return function(*args, **kwargs)

    return called


def in_widest(function: Callable) -> Callable:
    """The function of operands that are cast to the widest dtype among them."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if STATE.dtype is None:
            return function(*args, **kwargs)
        wide: list[DType] = []
        each_float((args, tuple(kwargs.values())), lambda t: wide.append(t._dtype) or t)
        to = max(wide, key=lambda dtype: dtype.itemsize, default=float32)
        return follows(function, lambda t: cast(t, to))(*args, **kwargs)

    return called


def follow(function: Callable, name: str) -> Callable:
    """A function of `torch` or `nn.functional`, or a method, as autocast wants it."""
    if name in FLOAT32:
        return follows(function, in_float32)
    if name in LOWER:
        return follows(function, in_low)
    if name in WIDEST:
        return in_widest(function)
    return follows(function, as_given) if name in AS_GIVEN else function


def follow_all(*functions: Callable) -> list[Callable]:
    """Functions that are public under their own names."""
    return [follow(function, function.__name__) for function in functions]


def follow_linalg(function: Callable, name: str) -> Callable:
    """The same for torch.linalg."""
    if name in LINALG_FLOAT32:
        return follows(function, in_float32)
    if name in LOWER:
        return follows(function, in_low)
    return follows(function, as_given) if name in LINALG_AS_GIVEN else function


def follow_fft(function: Callable, name: str) -> Callable:
    """The same for torch.fft."""
    return follows(function, in_float32) if name in FFT_FLOAT32 else function
