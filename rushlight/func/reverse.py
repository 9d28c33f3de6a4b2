"""`torch.autograd.functional`: Jacobians and their products with vectors, by reverse mode.

A product J v is the gradient of (v -> v^T J) at v: two reverse passes, since gradients are graphs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.func.batched import vmap

__getattr__ = _names.getattr_of(__name__)
__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
Tensors = tuple[Any, ...]


def _as_tuple(value: Any, what: str, name: str) -> tuple[bool, Tensors]:
    is_tuple = isinstance(value, tuple)
    items = value if is_tuple else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, torch.Tensor):
            at = f" at index {i}" if is_tuple else ""
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the "
                f"value{at} has type {type(item)}."
            )
    return is_tuple, items


def _prepared(inputs: Tensors, create_graph: bool) -> Tensors:
    """Inputs to differentiate by: with the caller's history, or fresh leaves."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _run(func: Callable[..., Any], inputs: Tensors, name: str) -> tuple[bool, Tensors]:
    with torch.enable_grad():
        return _as_tuple(func(*inputs), "outputs of the user-provided function", name)


def _check_vector(v: Tensors, like: Tensors, what: str) -> None:
    if len(v) != len(like):
        raise RuntimeError(f"v: got {len(v)} tensors, but there are {len(like)} {what}.")
    for i, (given, wanted) in enumerate(zip(v, like, strict=True)):
        if given.shape != wanted.shape:
            raise RuntimeError(
                f"v has invalid size: should be {wanted.shape} but got {given.shape} (entry {i})."
            )


def _vector(v: Any, like: Tensors, what: str, name: str) -> Tensors:
    if v is not None:
        given = tuple(x.detach() if not x.requires_grad else x for x in _as_tuple(v, "v", name)[1])
        _check_vector(given, like, what)
        return given
    if len(like) != 1 or like[0].numel() != 1:
        raise RuntimeError(
            f"The vector v can only be None if the user-provided function has a single one of "
            f"{what} with one element."
        )
    return (torch.ones_like(like[0]),)


def _grad(
    outputs: Tensors, inputs: Tensors, vectors: Any = None, create_graph: bool = False,
    strict: str = "",
) -> Tensors:  # fmt: skip
    """The gradients; zeros (an error with `strict`) where an input is not used."""
    pairs = [(out, v) for out, v in zip(outputs, vectors, strict=True) if out.requires_grad]
    if not pairs:
        found: Sequence[Any] = [None] * len(inputs)
    else:
        found = torch.autograd.grad(
            [out for out, _ in pairs], inputs, [v for _, v in pairs], create_graph=create_graph,
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
    if strict and any(g is None for g in found):
        at = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(
            f"{strict}: The output of the user-provided function is independent of input {at}. "
            "This is not allowed in strict mode."
        )
    return tuple(
        torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)
    )


def _finish(values: Tensors, is_tuple: bool, create_graph: bool) -> Any:
    kept = values if create_graph else tuple(value.detach() for value in values)
    return kept if is_tuple else kept[0]


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(func(inputs), v^T J): v has the shape of the outputs.

    >>> import rushlight as torch
    >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    many_in, given = _as_tuple(inputs, "inputs", "vjp")
    xs = _prepared(given, create_graph)
    many_out, ys = _run(func, xs, "vjp")
    vector = _vector(v, ys, "outputs", "vjp")
    found = _grad(ys, xs, vector, create_graph, "vjp" if strict else "")
    return _finish(ys, many_out, create_graph), _finish(found, many_in, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(func(inputs), J v): v has the shape of the inputs."""
    _, given = _as_tuple(inputs, "inputs", "jvp")
    xs = _prepared(given, create_graph)
    vector = _vector(v, given, "inputs", "jvp")
    many_out, ys = _run(func, xs, "jvp")
    with torch.enable_grad():
        dummies = tuple(torch.zeros_like(y, requires_grad=True) for y in ys)
        pulled = _grad(ys, xs, dummies, True, "jvp" if strict else "")
        found = _grad(pulled, dummies, vector, create_graph)
    return _finish(ys, many_out, create_graph), _finish(found, many_out, create_graph)


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The derivative of each output by each input: shape `output.shape + input.shape`.

    A tuple of inputs gives a tuple, a tuple of outputs a tuple of those. `vectorize` and
    `strategy` change nothing: the pass of one element is done for all elements at once.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant.'
        )
    _check_vectorize("jacobian", strategy == "forward-mode", strict, vectorize)
    many_in, given = _as_tuple(inputs, "inputs", "jacobian")
    xs = _prepared(given, create_graph)
    many_out, ys = _run(func, xs, "jacobian")
    rows = []
    for y in ys:
        units = torch.eye(y.numel(), dtype=y.dtype).reshape(y.numel(), *y.shape)
        one = functools.partial(_row, y, xs, create_graph, "jacobian" if strict else "")
        found = vmap(one)(units) if y.numel() else [torch.zeros(0, *x.shape) for x in xs]
        parts = tuple(f.reshape(*y.shape, *x.shape) for f, x in zip(found, xs, strict=True))
        rows.append(_finish(parts, many_in, create_graph))
    return tuple(rows) if many_out else rows[0]


def _check_vectorize(name: str, forward: bool, strict: bool, vectorize: bool) -> None:
    """PyTorch's limits, so that a program which works here works there."""
    if forward and strict:
        raise RuntimeError(
            f"torch.autograd.functional.{name}: `strict=True` and forward mode are not supported "
            "together. Please either set `strict=False` or use the reverse mode."
        )
    if forward and not vectorize:
        raise NotImplementedError(
            f"torch.autograd.functional.{name}: forward mode needs `vectorize=True`."
        )
    if strict and vectorize:
        raise RuntimeError(
            f"torch.autograd.functional.{name}: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )


def _row(y: Any, xs: Tensors, create_graph: bool, strict: str, unit: Any) -> Tensors:
    """The derivatives of one element of an output."""
    return _grad((y,), xs, (unit,), create_graph, strict)


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*xs: Any) -> Any:
        out = func(*xs)
        if not isinstance(out, torch.Tensor) or out.numel() != 1:
            raise RuntimeError(
                f"The function given to {name} should return a single Tensor with a single value."
            )
        return out.reshape(())

    return call


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a function with one value."""
    _check_vectorize("hessian", outer_jacobian_strategy == "forward-mode", strict, vectorize)
    many_in, given = _as_tuple(inputs, "inputs", "hessian")
    scalar = _scalar(func, "hessian")

    def gradient(*xs: Any) -> Any:
        parts = jacobian(scalar, xs, create_graph=True, strict=strict)
        return parts if many_in else parts[0]

    return jacobian(gradient, given if many_in else given[0], create_graph, strict)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(func(inputs), H v) of a function with one value."""
    many_in, given = _as_tuple(inputs, "inputs", "hvp")
    vector = _vector(v, given, "inputs", "hvp")
    xs = _prepared(given, create_graph)
    _, ys = _run(_scalar(func, "hvp"), xs, "hvp")
    with torch.enable_grad():
        first = _grad(ys, xs, (torch.ones_like(ys[0]),), True, "hvp" if strict else "")
        _check_twice(first, strict)
        found = _grad(first, xs, vector, create_graph)
    return _finish(ys, False, create_graph), _finish(found, many_in, create_graph)


def _check_twice(first: Tensors, strict: bool) -> None:
    for i, gradient in enumerate(first):
        if strict and not gradient.requires_grad:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided "
                f"function with respect to input {i} is independent of the input. This is not "
                "allowed in strict mode. You should ensure that your function is twice "
                "differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )


# The Hessian is symmetric, so the products from both sides are the same.
vhp = hvp
