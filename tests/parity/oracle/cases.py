"""A case: one call by its public name, its arguments as arrays and plain values, its results.

`encode` turns an argument tree of any module into a plain tree; `decode` builds it again in another
module. A tensor becomes ("tensor", array, dtype name, strides, requires_grad).
"""

from __future__ import annotations

import cmath
from types import ModuleType
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, type(None), slice, type(Ellipsis))
TOLERANCE = {
    "float64": (1e-6, 1e-7), "float32": (1e-4, 1e-5), "bfloat16": (2e-2, 1e-2),
    "float16": (2e-3, 1e-3), "complex64": (1e-4, 1e-5), "complex128": (1e-6, 1e-7),
}  # fmt: skip
LIMIT = 1 << 16


class Unsuited(Exception):
    """A sample that cannot be told in arrays and plain values."""


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def array_of(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if dtype_name(tensor) == "complex32":
        tensor = tensor.cfloat()
    return (tensor.float() if dtype_name(tensor) == "bfloat16" else tensor).numpy().copy()


def encode(value: Any, module: ModuleType) -> Any:
    if isinstance(value, module.Tensor):
        if value.numel() > LIMIT or str(value.layout) != "torch.strided":
            raise Unsuited("size, dtype or layout")
        return ("tensor", array_of(value), dtype_name(value), value.requires_grad)
    if isinstance(value, tuple | list):
        return (type(value).__name__ == "list" and "list" or "tuple",
                [encode(v, module) for v in value])  # fmt: skip
    if isinstance(value, dict):
        return ("dict", {k: encode(v, module) for k, v in value.items()})
    if isinstance(value, module.dtype):
        return ("dtype", str(value).rpartition(".")[2])
    if type(value) in PLAIN:
        return ("plain", value)
    raise Unsuited(type(value).__name__)


def decode(tree: Any, module: ModuleType, leaves: list[Any], grad: bool) -> Any:
    """The tree's value in a module; tensors that need a gradient are appended to `leaves`."""
    kind, body = tree[0], tree[1]
    if kind == "tensor":
        made = module.from_numpy(np.array(body))
        if dtype_name(made) != tree[2]:
            made = made.to(getattr(module, tree[2]))
        if grad and tree[3]:
            leaves.append(made.requires_grad_())
        return made
    if kind in ("list", "tuple"):
        items = [decode(item, module, leaves, grad) for item in body]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {k: decode(v, module, leaves, grad) for k, v in body.items()}
    return getattr(module, body) if kind == "dtype" else body


def find(module: ModuleType, name: str) -> Any:
    """The function `a.b.c` of a module, or None."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def results(value: Any, module: ModuleType) -> list[Any]:
    """The tensors and numbers of a result, in order."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in results(item, module)]
    return [value]


def run(case: dict, module: ModuleType, grad: bool) -> tuple[list, list]:
    """Results as (dtype name, array) or plain values, and the gradients of the leaves."""
    leaves: list[Any] = []
    args = decode(case["args"], module, leaves, grad)
    kwargs = decode(case["kwargs"], module, leaves, grad)
    found = results(find(module, case["name"])(*args, **kwargs), module)
    told = [
        (dtype_name(v), array_of(v)) if isinstance(v, module.Tensor) else ("plain", v)
        for v in found
    ]
    if not grad:
        return told, []
    outs = [v for v in found if isinstance(v, module.Tensor) and v.requires_grad]
    seeds = [module.from_numpy(_seed(array_of(v), i)).to(v.dtype) for i, v in enumerate(outs)]
    grads = module.autograd.grad(outs, leaves, seeds, allow_unused=True) if outs else []
    return told, [None if g is None else (dtype_name(g), array_of(g)) for g in grads]


def _seed(like: np.ndarray, i: int) -> np.ndarray:
    random, shape = np.random.RandomState(99 + i), like.shape
    parts = [random.uniform(-1, 1, shape).astype(np.float32).reshape(shape) for _ in range(2)]
    return parts[0] + 1j * parts[1] if like.dtype.kind == "c" else parts[0]


def differs(got: Any, want: Any, loose: bool, factor: float = 1) -> str:
    """'' when equal within the tolerance of the dtype."""
    if got is None or want is None:
        other = got if want is None else want
        return "" if other is None or not np.any(other[1]) else "one gradient is None"
    if got[0] != want[0]:
        return f"dtype {got[0]}, want {want[0]}"
    if got[0] == "plain":
        same = got[1] == want[1] or _close_numbers(got[1], want[1])
        return "" if loose or same else f"{got[1]!r}, want {want[1]!r}"
    a, b = np.asarray(got[1]), np.asarray(want[1])
    if a.shape != b.shape:
        return f"shape {a.shape}, want {b.shape}"
    if loose:
        return ""
    if b.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else "values differ"
    rtol, atol = TOLERANCE[want[0]]
    size = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    near = np.isclose(a, b, factor * rtol, factor * (atol + rtol * 1e-2 * size), equal_nan=True)
    return "" if near.all() else f"off by {np.nanmax(np.abs(a - b)):.3g}"


def _close_numbers(a: Any, b: Any) -> bool:
    numbers = isinstance(a, int | float | complex) and isinstance(b, int | float | complex)
    return numbers and cmath.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5)
