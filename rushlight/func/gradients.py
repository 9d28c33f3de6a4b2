"""`torch.func.grad` and its kin: functions that give derivatives of functions, by reverse mode.

They may be nested: the gradients of an inner one are graphs, which the outer one differentiates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


def _fresh(value: Any) -> Any:
    """Tensors as inputs to differentiate by, with the history that they have."""
    return tree_map(
        lambda x: x.view_as(x) if x.requires_grad else x.detach().requires_grad_(), value
    )


def _gradients(outputs: list[Any], tree: Any, vectors: Any = None) -> Any:
    leaves, spec = tree_flatten(tree)
    found: list[Any] = [None] * len(leaves)
    wanted = [(out, v) for out, v in zip(outputs, vectors or [None] * len(outputs), strict=True)
              if out.requires_grad]  # fmt: skip
    if wanted:
        found = list(torch.autograd.grad(
            [out for out, _ in wanted], leaves, [v for _, v in wanted] if vectors else None,
            create_graph=True, allow_unused=True,
        ))  # fmt: skip
    zeros = [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]
    return tree_unflatten(zeros, spec)


def _at(args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> Any:
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)


def _put(args: tuple[Any, ...], argnums: int | tuple[int, ...], values: Any) -> tuple[Any, ...]:
    new = list(args)
    pairs = [(argnums, values)] if isinstance(argnums, int) else zip(argnums, values, strict=True)
    for position, value in pairs:
        new[position] = value
    return tuple(new)


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value), or (gradient, (value, aux)).

    >>> import rushlight as torch
    >>> torch.func.grad_and_value(lambda x: x**2)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        outer = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = _fresh(_at(args, argnums))
            result = func(*_put(args, argnums, inputs), **kwargs)
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, torch.Tensor) or value.dim():
                raise RuntimeError(
                    "Expected f(*args) to return a scalar tensor, got "
                    f"{f'tensor with {value.dim()} dims' if hasattr(value, 'dim') else value!r}"
                )
            gradient = _gradients([value], inputs)
        if not outer or not _depends(args):
            gradient, value = (tree_map(torch.Tensor.detach, t) for t in (gradient, value))
        return gradient, ((value, aux) if has_aux else value)

    return wrapped


def _depends(args: Any) -> bool:
    """Is somebody outside going to differentiate?"""
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_leaves(args))


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func` by the arguments `argnums`.

    >>> import rushlight as torch
    >>> torch.func.grad(torch.func.grad(torch.sin))(torch.tensor(0.5))
    tensor(-0.4794)
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function from vectors of the outputs' shape to v^T J)."""
    with torch.enable_grad():
        inputs = tuple(_fresh(p) for p in primals)
        result = func(*inputs)
    outputs, aux = result if has_aux else (result, None)
    leaves, spec = tree_flatten(outputs)

    def pull(*vectors: Any) -> Any:
        given = tree_leaves(vectors[0] if len(vectors) == 1 else vectors)
        return _gradients(leaves, inputs, given)

    shown = tree_unflatten([leaf.detach() for leaf in leaves], spec)
    return (shown, pull, aux) if has_aux else (shown, pull)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """(func(*primals), J v), by two reverse passes."""
    with torch.enable_grad():
        inputs = tuple(_fresh(p) for p in primals)
        result = func(*inputs)
        outputs, aux = result if has_aux else (result, None)
        leaves, spec = tree_flatten(outputs)
        dummies = [torch.zeros_like(leaf, requires_grad=True) for leaf in leaves]
        pulled = tree_leaves(_gradients(leaves, inputs, dummies))
        pushed = tree_leaves(_gradients(pulled, dummies, tree_leaves(tangents)))
    value = tree_unflatten([leaf.detach() for leaf in leaves], spec)
    tangent = tree_unflatten([leaf.detach() for leaf in pushed], spec)
    return (value, tangent, aux) if has_aux else (value, tangent)


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the derivative of each output by each input."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        with torch.enable_grad():
            inputs = _fresh(_at(args, argnums))
            result = func(*_put(args, argnums, inputs))
            outputs, aux = result if has_aux else (result, None)
            found = tree_map(lambda out: _jacobian(out, inputs), outputs)
        if not torch.is_grad_enabled() or not _depends(args):
            found = tree_map(torch.Tensor.detach, found)
        return (found, aux) if has_aux else found

    return wrapped


def _jacobian(output: Any, inputs: Any) -> Any:
    """The rows, one backward pass for each element of the output."""
    count = output.numel()
    units = torch.eye(count, dtype=output.dtype).reshape(count, *output.shape).unbind(0)
    rows = [_gradients([output], inputs, [unit]) for unit in units]
    return tree_map(
        lambda *parts: torch.stack(parts).reshape(*output.shape, *parts[0].shape), *rows
    )


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *,
    chunk_size: int | None = None, randomness: str = "error",
) -> Callable[..., Any]:  # fmt: skip
    """The same derivative as `jacrev`'s."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of a function with one value."""
    return jacrev(jacrev(func, argnums), argnums)
