"""assert_close: |actual - expected| <= atol + rtol * |expected|, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight as torch

# PyTorch's defaults: (rtol, atol); whole numbers and bools must be equal.
TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless both are close.

    Example:
        >>> assert_close(torch.ones(2) / 3, torch.tensor([0.333333, 0.333334]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or unspecified, but got rtol={rtol} "
            f"and atol={atol}"
        )
    options = (rtol, atol, equal_nan, check_dtype, check_stride)
    found = _compare(actual, expected, options, "")
    if found is not None:
        raise AssertionError(msg(found) if callable(msg) else msg or found)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:  # fmt: skip
    """The old name of `assert_close`, which looks at values alone; PyTorch deprecates it."""
    assert_close(
        torch.as_tensor(actual), torch.as_tensor(expected), rtol=rtol, atol=atol,
        equal_nan=equal_nan, check_dtype=False, msg=msg or None,
    )  # fmt: skip


def _compare(actual: Any, expected: Any, options: tuple, where: str) -> str | None:
    """What differs, or None."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return f"The keys of the mappings do not match: {list(actual)}, {list(expected)}{where}"
        inner = ((actual[key], expected[key], f"[{key!r}]") for key in actual)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        inner = ((a, e, f"[{i}]") for i, (a, e) in enumerate(zip(actual, expected, strict=True)))
    elif actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}{where}"
    else:
        return _compare_tensors(actual, expected, options, where)
    for a, e, step in inner:
        path = f"{where}{step}" if where else f"\n\nThe failure occurred for item {step}"
        found = _compare(a, e, options, path)
        if found is not None:
            return found
    return None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _compare_tensors(actual: Any, expected: Any, options: tuple, where: str) -> str | None:
    rtol, atol, equal_nan, check_dtype, check_stride = options
    scalars = not isinstance(actual, torch.Tensor) and not isinstance(expected, torch.Tensor)
    a, e = torch.as_tensor(actual).detach(), torch.as_tensor(expected).detach()
    if a.shape != e.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.{where}"
    if check_dtype and a.dtype is not e.dtype and not scalars:
        return f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.{where}"
    if check_stride and a.stride() != e.stride():
        pair = f"{a.stride()} != {e.stride()}"
        return f"The values for attribute 'stride()' do not match: {pair}.{where}"
    if rtol is None:
        pairs = [TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (a, e)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    common = torch.promote_types(a.dtype, e.dtype)
    common = torch.int64 if not common.is_floating_point else torch.float64
    a, e = a.to(common), e.to(common)
    close = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return None
    return _describe(a, e, close, rtol, atol) + where


def _describe(a: Any, e: Any, close: Any, rtol: float, atol: float) -> str:
    if a.dim() == 0:
        return (
            f"Scalars are not close!\n\nExpected {e.item()} but got {a.item()}.\nAbsolute "
            f"difference: {abs(a - e).item()} (up to {atol} allowed)\nRelative difference: "
            f"{(abs(a - e) / abs(e)).item()} (up to {rtol} allowed)"
        )
    gap = torch.where(close, torch.zeros_like(a), (a - e).abs())
    share = torch.where(close, torch.zeros_like(a), (gap / e.abs()).to(a.dtype))
    wrong, count = int((~close).sum()), a.numel()
    lines = [
        f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!\n",
        f"Mismatched elements: {wrong} / {count} ({100 * wrong / count:.1f}%)",
    ]
    for name, values, limit in (("absolute", gap, atol), ("relative", share, rtol)):
        flat = int(values.argmax())
        index = []
        for size in reversed(a.shape):
            flat, rest = divmod(flat, size)
            index.append(rest)
        at = tuple(reversed(index))
        allowed = f" (up to {limit} allowed)" if rtol or atol else ""
        lines.append(f"Greatest {name} difference: {values[at].item()} at index {at}{allowed}")
    return "\n".join(lines)
