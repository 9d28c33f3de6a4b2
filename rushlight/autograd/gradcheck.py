"""Compare gradients with finite differences (torch.autograd.gradcheck and gradgradcheck).

Works on what the tensors offer (`detach`, `tolist`, `flatten`), so it needs no Tensor class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.api import grad
from rushlight.autograd.mode import enable_grad, no_grad
from rushlight.autograd.protocol import TENSORS


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ."""


def _outputs(function: Callable, inputs: Sequence[Any]) -> list[Any]:
    found = function(*inputs)
    found = found if isinstance(found, tuple | list) else (found,)
    return [t for t in found if TENSORS.is_tensor(t) and t.is_floating_point()]


def _numerical(function: Callable, inputs: list[Any], index: int, eps: float) -> list[np.ndarray]:
    """d output / d inputs[index]: one matrix (input elements x output elements) per output."""
    source = inputs[index]
    base = np.array(source.detach().tolist(), np.float64)
    rows: list[list[np.ndarray]] = []
    for place in range(base.size):
        sides = []
        for shift in (eps, -eps):
            moved = base.reshape(-1).copy()
            moved[place] += shift
            replaced = source.new_tensor(moved.reshape(base.shape).tolist(), dtype=source.dtype)
            replaced = replaced.reshape(source.shape)
            with no_grad():
                trial = [replaced if i == index else t for i, t in enumerate(inputs)]
                sides.append([np.array(o.tolist(), np.float64) for o in _outputs(function, trial)])
        rows.append([(a - b).reshape(-1) / (2 * eps) for a, b in zip(*sides, strict=True)])
    count = len(_outputs(function, inputs))
    empty = [np.zeros((0, 0))] * count
    return [np.stack([row[k] for row in rows]) for k in range(count)] if rows else empty


def _analytical(outputs: list[Any], source: Any, number: int) -> np.ndarray:
    output = outputs[number]
    columns = []
    size = output.numel()
    for place in range(size):
        seed = np.zeros(size)
        seed[place] = 1
        weights = output.new_tensor(seed.tolist(), dtype=output.dtype).reshape(output.shape)
        (found,) = grad(output, source, weights, retain_graph=True, allow_unused=True)
        zero = np.zeros(source.numel())
        columns.append(
            zero if found is None else np.array(found.detach().tolist(), np.float64).reshape(-1)
        )
    return np.stack(columns, 1) if columns else np.zeros((source.numel(), 0))


def _differentiated(given: Sequence[Any]) -> list[int]:
    return [i for i, t in enumerate(given) if TENSORS.is_tensor(t) and t.requires_grad]


def gradcheck(
    func: Callable, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, **options: Any,
) -> bool:  # fmt: skip
    """True when the gradients of `func` at `inputs` agree with central differences."""
    given = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
    checked = _differentiated(given)
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    with enable_grad():
        outputs = _outputs(func, given)
    for index in checked:
        for number, expected in enumerate(_numerical(func, given, index, eps)):
            found = np.zeros_like(expected)
            if outputs[number].requires_grad:
                found = _analytical(outputs, given[index], number)
            if np.allclose(found, expected, rtol, atol, equal_nan=True):
                continue
            if not raise_exception:
                return False
            raise GradcheckError(
                f"Jacobian mismatch for output {number} with respect to input {index},\n"
                f"numerical:{expected}\nanalytical:{found}\n"
            )
    return True


def gradgradcheck(
    func: Callable, inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True, **options: Any,
) -> bool:  # fmt: skip
    """gradcheck of the gradient itself."""
    given = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
    outputs = _outputs(func, given)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = [
            o.new_tensor(rng.uniform(0.2, 1, tuple(o.shape)).tolist(), dtype=o.dtype)
            .reshape(o.shape).requires_grad_(True)
            for o in outputs
        ]  # fmt: skip
    else:
        seeds = list(grad_outputs) if isinstance(grad_outputs, tuple | list) else [grad_outputs]
    count, differentiated = len(given), _differentiated(given)

    def gradient(*args: Any) -> tuple:
        sources, weights = list(args[:count]), args[count:]
        for i in differentiated:
            if not sources[i].requires_grad:
                sources[i] = sources[i].detach().requires_grad_(True)
        with enable_grad():
            found = _outputs(func, sources)
            wanted = [sources[i] for i in differentiated]
            pairs = [(o, w) for o, w in zip(found, weights, strict=True) if o.requires_grad]
            return grad([o for o, _ in pairs], wanted, [w for _, w in pairs], create_graph=True,
                        allow_unused=True, materialize_grads=True)  # fmt: skip

    return gradcheck(gradient, (*given, *seeds), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception)  # fmt: skip
