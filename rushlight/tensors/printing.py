"""repr of tensors, as PyTorch prints them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.base.devices import CPU
from rushlight.base.dtypes import (
    DType,
    bool_,
    complex32,
    complex64,
    complex128,
    convert_array,
    float64,
    int64,
)
from rushlight.tensors.interop import look
from rushlight.tensors.numbers import Defaults


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


OPTIONS = _Options()


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """How numbers are printed; `profile` is "default", "short" or "full"."""
    profiles = {
        "default": (4, 1000, 3, 80),
        "short": (2, 1000, 2, 80),
        "full": (4, math.inf, 3, 80),
    }
    if profile is not None:
        found = profiles[profile]
        OPTIONS.precision, OPTIONS.threshold, OPTIONS.edgeitems, OPTIONS.linewidth = found  # type: ignore[assignment]
    for name, value in (("precision", precision), ("threshold", threshold),
                        ("edgeitems", edgeitems), ("linewidth", linewidth)):  # fmt: skip
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


class _Formatter:
    """The width and style of the real numbers of one tensor."""

    def __init__(self, values: np.ndarray, floating: bool) -> None:
        self.floating, self.int_mode, self.sci_mode, self.width = floating, True, False, 1
        flat = values.reshape(-1)
        if not floating:
            self.width = max((len(str(v)) for v in flat.tolist()), default=1)
            return
        finite = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        if finite.size == 0:
            return
        size = np.abs(finite)
        low, high = size.min(), size.max()
        self.int_mode = bool((finite == np.ceil(finite)).all())
        wide = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        self.sci_mode = bool(wide) if OPTIONS.sci_mode is None else OPTIONS.sci_mode
        precision = OPTIONS.precision
        if self.sci_mode:
            self.width = max(len(f"{v:.{precision}e}") for v in finite)
        elif self.int_mode:
            self.width = max(len(f"{v:.0f}") + 1 for v in finite)
        else:
            self.width = max(len(f"{v:.{precision}f}") for v in finite)

    def format(self, value: Any) -> str:
        if not self.floating:
            text = str(value)
        elif self.sci_mode:
            text = f"{value:{self.width}.{OPTIONS.precision}e}"
        elif self.int_mode:
            text = f"{value:.0f}"
            if math.isfinite(value):
                text += "."
        else:
            text = f"{value:.{OPTIONS.precision}f}"
        return " " * (self.width - len(text)) + text


class _ComplexFormatter:
    """The parts of complex numbers, each in its own width and style."""

    def __init__(self, values: np.ndarray) -> None:
        self.parts = _Formatter(values.real, True), _Formatter(values.imag, True)
        self.width = self.parts[0].width + self.parts[1].width + 1

    def format(self, value: complex) -> str:
        re, im = self.parts[0].format(value.real), self.parts[1].format(value.imag).lstrip() + "j"
        return re + im if im[0] in "+-" else f"{re}+{im}"


Formatter = _Formatter | _ComplexFormatter


def _vector(values: np.ndarray, indent: int, summarize: bool, formatter: Formatter) -> str:
    per_line = max(1, int((OPTIONS.linewidth - indent) // (formatter.width + 2)))
    edge = OPTIONS.edgeitems
    if summarize and not edge:
        items = ["..."]
    elif summarize and len(values) > 2 * edge:
        items = [formatter.format(v) for v in values[:edge].tolist()]
        items.append(" ...")
        items += [formatter.format(v) for v in values[-edge:].tolist()]
    else:
        items = [formatter.format(v) for v in values.tolist()]
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(values: np.ndarray, indent: int, summarize: bool, formatter: Formatter) -> str:
    if values.ndim == 0:
        return formatter.format(values.item())
    if values.ndim == 1:
        return _vector(values, indent, summarize, formatter)
    edge = OPTIONS.edgeitems

    def part(i: int) -> str:
        return _nested(values[i], indent + 1, summarize, formatter)

    count = len(values)
    if summarize and count > 2 * edge:
        parts = [part(i) for i in range(edge)] + ["..."]
        parts += [part(i) for i in range(count - edge, count)]
    else:
        parts = [part(i) for i in range(count)]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _edges(values: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    for axis in range(values.ndim):
        size, edge = values.shape[axis], OPTIONS.edgeitems
        if size > 2 * edge:
            keep = np.r_[0:edge, size - edge : size]
            values = np.take(values, keep, axis)
    return values


def tensor_text(tensor: Any, indent: int) -> str:
    """Only the numbers."""
    if tensor.numel() == 0:
        return "[]"
    values, floating = look(tensor), tensor.dtype.kind == "float"
    if tensor.dtype is complex32:
        values = convert_array(values, complex64)
    elif tensor.dtype.itemsize <= 2 and floating:
        values = values.astype(np.float32)
    summarize = values.size > OPTIONS.threshold
    shown = _edges(values) if summarize else values
    is_complex = tensor.dtype.is_complex
    formatter = _ComplexFormatter(shown) if is_complex else _Formatter(shown, floating)
    return _nested(values, indent, summarize, formatter)


def tensor_repr(tensor: Any, *, tensor_contents: str | None = None) -> str:
    plain = type(tensor).__name__ in ("Tensor", "Parameter")
    prefix = "tensor(" if plain else f"{type(tensor).__name__}("
    suffixes = [] if tensor.device is CPU else [f"device='{tensor.device}'"]
    if tensor.is_meta:
        tensor_contents = "..."
    if tensor.numel() == 0 or tensor.is_meta:
        if tensor.dim() != 1 or tensor.is_meta:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not Defaults.dtype:
            suffixes.append(f"dtype={tensor.dtype}")
    elif tensor.dtype not in (Defaults.dtype, _default_complex(), int64, bool_):
        suffixes.append(f"dtype={tensor.dtype}")
    text = tensor_contents or tensor_text(tensor, len(prefix))
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name().rsplit('::', 1)[-1]}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes(prefix + text, suffixes, len(prefix))


def _default_complex() -> DType:
    return complex128 if Defaults.dtype is float64 else complex64


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    parts = [text]
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > OPTIONS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            last = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            last += len(suffix) + 2
    return "".join(parts) + ")"
