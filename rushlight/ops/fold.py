"""`fold_dim`: the transposed map of the primitive `unfold`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, Dim, Size
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.rules import Shape, is_static, operand_dtype, replace_dim
from rushlight.ops.samples import ErrorSample, Sample, array
from rushlight.ops.window import fold_windows, unfold, window_count


def fold_shape(call: Call) -> Shape:
    return replace_dim(call["x"].shape[:-1], call["dim"], call["length"])


def check_fold(call: Call) -> None:
    *shape, size = call["x"].shape
    count = window_count(call["length"], size, call["step"], call["dilation"])
    if is_static(count) and is_static(shape[call["dim"]]) and count != shape[call["dim"]]:
        raise RuntimeError(
            f"fold_dim: {call['length']} places have {count} windows of {size} elements, "
            f"but got {shape[call['dim']]} windows"
        )


def fold_decompose(x: Any, dim: int, length: Any, step: int = 1, dilation: int = 1) -> Any:
    return fold_windows(x, dim, length, step, dilation)


def fold_reference(x: np.ndarray, dim: int, length: int, step: int, dilation: int) -> np.ndarray:
    moved = np.moveaxis(x, dim, 0)
    out = np.zeros((length, *moved.shape[1:-1]), x.dtype)
    for window in range(moved.shape[0]):
        for k in range(moved.shape[-1]):
            out[window * step + k * dilation] += moved[window, ..., k]
    return np.moveaxis(out, 0, dim)


def fold_grad(g: Any, dim: int, step: int, dilation: int, meta: Meta) -> tuple:
    return (unfold(g, dim, meta.shape("x")[-1], step, dilation),)


fold_dim = composite(
    "fold_dim",
    "Add the elements of windows (last dimension) up where unfold takes them from along dim.",
    (Arg("x"), Dim("dim"), Size("length"), Attr("step", 1), Attr("dilation", 1)),
    fold_decompose,
    fold_reference,
    fold_grad,
    shape=fold_shape,
    dtype=operand_dtype,
    check=check_fold,
    samples=lambda rng: [
        Sample((array(rng, 2, 3, 4),), {"dim": 1, "length": 6, "step": 1, "dilation": 1}),
        Sample((array(rng, 3, 2, 2),), {"dim": 0, "length": 9, "step": 3, "dilation": 2}),
        Sample((array(rng, 3, 2),), {"dim": 0, "length": 7, "step": 2, "dilation": 1}),
    ],
    error_samples=(
        ErrorSample((np.ones((3, 2)),), {"dim": 0, "length": 9}, RuntimeError, "windows"),
    ),
)
