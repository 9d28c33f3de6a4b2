"""`torch.func.grad` and its kin: functions that give derivatives of functions, by reverse mode.

They may be nested: the gradients of an inner one are graphs, which the outer one differentiates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.autograd.engine import reachable
from rushlight.autograd.node import AccumulateGrad
from rushlight.func.batched import vmap
from rushlight.func.checks import check_argnums, check_outputs, check_tensors, with_aux
from rushlight.tensors.tensor import edge_of
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


def _fresh(value: Any) -> Any:
    """Tensors as inputs to differentiate by, with the history that they have."""
    check_tensors(value)
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
    check_argnums(args, argnums)
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
        with torch.enable_grad():
            inputs = _fresh(_at(args, argnums))
            result = func(*_put(args, argnums, inputs), **kwargs)
            value, aux = with_aux(result, has_aux, "grad_and_value(f)(*args)")
            if not isinstance(value, torch.Tensor) or value.dim():
                raise RuntimeError(
                    "Expected f(*args) to return a scalar tensor, got "
                    f"{f'tensor with {value.dim()} dims' if hasattr(value, 'dim') else value!r}"
                )
            gradient = _gradients([value], inputs)
        gradient, value, aux = _given_out(args, (gradient, value, aux), inputs)
        return gradient, ((value, aux) if has_aux else value)

    return wrapped


def _wanted_outside(args: Any, results: Any, own: Any) -> bool:
    """Is somebody outside going to differentiate the results: by the arguments `args`, or by a
    tensor that the function uses besides its inputs `own`?"""
    if not torch.is_grad_enabled():
        return False
    if any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_leaves(args)):
        return True
    inner = {id(leaf) for leaf in tree_leaves(own)}
    tensors = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    starts = [edge[0] for leaf in tensors if (edge := edge_of(leaf)) is not None]
    return any(
        isinstance(fn, AccumulateGrad)
        and id(fn.variable) not in inner
        and not getattr(fn.variable, "_closed", False)
        for fn in reachable(starts)
    )


def _without_history(tree: Any) -> Any:
    return tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, tree)


def _given_out(args: Any, results: tuple[Any, ...], own: Any) -> tuple[Any, ...]:
    """The results at the end of a transform: with history only where somebody wants it. Its own
    inputs are closed: nobody differentiates by them any more."""
    wanted = _wanted_outside(args, results, own)
    for leaf in tree_leaves(own):
        if leaf.is_leaf:
            leaf._closed = True
    return results if wanted else tuple(_without_history(result) for result in results)


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
    call = "vjp(f, *primals)"
    with torch.enable_grad():
        inputs = tuple(_fresh(p) for p in primals)
        outputs, aux = with_aux(func(*inputs), has_aux, call)
    leaves = check_outputs(outputs, call)
    spec = tree_flatten(outputs)[1]

    def pull(*vectors: Any) -> Any:
        given, own = tree_flatten(vectors[0] if len(vectors) == 1 else vectors)
        if own != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {own}, primal output: {spec}"
            )
        found = _gradients(leaves, inputs, given)
        keep = _wanted_outside((primals, given), found, inputs)
        return found if keep else _without_history(found)

    keep = _wanted_outside(primals, (outputs, aux), inputs)
    shown, aux = (outputs, aux) if keep else _without_history((outputs, aux))
    return (shown, pull, aux) if has_aux else (shown, pull)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """(func(*primals), J v), by two reverse passes."""
    call = "jvp(f, primals, tangents)"
    _check_tangents(primals, tangents, call)
    with torch.enable_grad():
        inputs = tuple(_fresh(p) for p in primals)
        outputs, aux = with_aux(func(*inputs), has_aux, call)
        check_outputs(outputs, call)
        leaves, spec = tree_flatten(outputs)
        dummies = [torch.zeros_like(leaf, requires_grad=True) for leaf in leaves]
        pulled = tree_leaves(_gradients(leaves, inputs, dummies))
        pushed = tree_leaves(_gradients(pulled, dummies, tree_leaves(tangents)))
    results = (outputs, tree_unflatten(pushed, spec), aux)
    value, tangent, aux = _given_out((primals, tangents), results, (inputs, dummies))
    return (value, tangent, aux) if has_aux else (value, tangent)


def _check_tangents(primals: Any, tangents: Any, call: str) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{call}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    have, given = tree_flatten(primals)[1], tree_flatten(tangents)[1]
    if have != given:
        raise RuntimeError(
            f"{call}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {have} and tangents with structure {given}"
        )


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)`, and the function that gives the change of the result for changes of the
    arguments, to first order.

    >>> import rushlight as torch
    >>> value, along = torch.func.linearize(torch.square, torch.tensor(3.0))
    >>> value.item(), along(torch.tensor(1.0)).item()
    (9.0, 6.0)
    """
    return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the derivative of each output by each input."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        with torch.enable_grad():
            inputs = _fresh(_at(args, argnums))
            outputs, aux = with_aux(func(*_put(args, argnums, inputs)), has_aux, "vjp(f, *primals)")
            check_outputs(outputs, "vjp(f, *primals)")
            found = tree_map(lambda out: _jacobian(out, inputs, chunk_size), outputs)
        found, aux = _given_out(args, (found, aux), inputs)
        return (found, aux) if has_aux else found

    return wrapped


def _jacobian(output: Any, inputs: Any, chunk: int | None) -> Any:
    """The rows: the backward pass of one element, for all of them at once."""
    if output.numel() == 0:
        return tree_map(lambda x: torch.zeros(*output.shape, *x.shape, dtype=x.dtype), inputs)
    count = output.numel()
    units = torch.eye(count, dtype=output.dtype).reshape(count, *output.shape)
    rows = vmap(lambda unit: _gradients([output], inputs, [unit]), chunk_size=chunk)(units)
    return tree_map(lambda part: part.reshape(*output.shape, *part.shape[1:]), rows)


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *,
    chunk_size: int | None = None, randomness: str = "error",
) -> Callable[..., Any]:  # fmt: skip
    """The same derivative as `jacrev`'s, by columns: a product J v for each element of the inputs,
    all of them at once."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        chosen = _at(args, argnums)
        leaves, spec = tree_flatten(chosen)
        seen: list[Any] = []

        def push(*units: Any) -> Any:
            tangents = tree_unflatten(list(units), spec)
            found = jvp(lambda x: func(*_put(args, argnums, x)), (chosen,), (tangents,),
                        has_aux=has_aux)  # fmt: skip
            seen.append(found[2] if has_aux else None)
            return found[1]

        blocks = []
        for i, leaf in enumerate(leaves):
            count = leaf.numel()
            units = torch.eye(count, dtype=leaf.dtype).reshape(count, *leaf.shape)
            others = [torch.zeros_like(other) for other in leaves]

            def column(unit: Any, i: int = i, others: Any = others) -> Any:
                return push(*others[:i], unit, *others[i + 1 :])

            columns = vmap(column, chunk_size=chunk_size, randomness=randomness)(units)
            blocks.append(tree_map(lambda c, x=leaf: _columns(c, x), columns))
        results = _by_output(blocks, spec), seen[0] if has_aux else None
        result, aux = _given_out(args, results, ())
        return (result, aux) if has_aux else result

    return wrapped


def _columns(columns: Any, leaf: Any) -> Any:
    """(elements of the input, output...) as (output..., input...)."""
    return columns.movedim(0, -1).reshape(*columns.shape[1:], *leaf.shape)


def _by_output(blocks: list[Any], spec: Any) -> Any:
    """A tree of outputs, each with a tree of inputs."""
    trees = [tree_flatten(block) for block in blocks]
    rows = [tree_unflatten(list(parts), spec)
            for parts in zip(*(leaves for leaves, _ in trees), strict=True)]  # fmt: skip
    return tree_unflatten(rows, trees[0][1])


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of a function with one value."""
    return jacfwd(jacrev(func, argnums), argnums)
