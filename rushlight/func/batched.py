"""`torch.func.vmap`: a function over the elements of a dimension, as one graph for all of them.

The function runs once, on an example without memory; its graph is turned into that of the batch
(batch_graph.py). The gradient of the result is a vmapped function too: the gradient of one example,
recorded again and turned into a graph of the batch, so derivatives of any order follow. A function
with something that has no rule is called for each example, with a warning that names it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.autograd import engine
from rushlight.autograd.mode import STATE
from rushlight.autograd.node import GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.func.batch_graph import Batch
from rushlight.func.batch_rules import NoRule, full
from rushlight.func.example import Example
from rushlight.tensors.generator import default_generator
from rushlight.tensors.tensor import WATCH, edge_of
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

RANDOMNESS = ("error", "different", "same")


def spread(in_dims: Any, tree: Any) -> list[int | None]:
    """One dimension for each leaf: `in_dims` is one for all, or a tree of them."""
    leaves, _ = tree_flatten(tree)
    if in_dims is None or isinstance(in_dims, int):
        return [in_dims] * len(leaves)
    parts = zip(in_dims, tree, strict=True) if isinstance(tree, list | tuple) else (
        (in_dims[key], tree[key]) for key in tree)  # fmt: skip
    return [dim for given, part in parts for dim in spread(given, part)]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that maps `func` over dimension `in_dims` of its arguments (None: not over it).

    in_dims: a number for all arguments, or a tree of them. randomness: "error", "same" or
    "different" numbers for the examples. chunk_size: at most so many examples at once.
    Raises ValueError when the sizes differ, RuntimeError when `func` looks at a value.

    >>> import rushlight as torch
    >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _checked_dims(func, in_dims, args)
        mapped = [_to_front(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
        size = _size(mapped, dims)

        def run(values: Sequence[Any], count: int) -> Any:
            call = _Call(lambda *one: func(*tree_unflatten(list(one), spec), **kwargs), count,
                         randomness)  # fmt: skip
            return call.run(list(values), [dim is not None for dim in dims])

        if chunk_size is None or chunk_size >= size:
            results, out_spec = run(mapped, size)
        else:
            results, out_spec = _in_chunks(run, mapped, dims, size, chunk_size)
        return _placed(results, out_spec, out_dims)

    return wrapped


def _checked_dims(func: Any, in_dims: Any, args: tuple) -> list[int | None]:
    if not args:
        raise ValueError(
            f"vmap({getattr(func, '__name__', func)})(<inputs>): got no inputs. Maybe you forgot "
            "to add inputs, or you are trying to vmap over a function with no inputs. The latter "
            "is unsupported."
        )
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise ValueError(
            f"vmap: in_dims is not compatible with the structure of inputs. in_dims has "
            f"{len(in_dims)} entries but there are {len(args)} inputs."
        )
    return spread(in_dims, args)


def _to_front(leaf: Any, dim: int | None) -> Any:
    if dim is None:
        return leaf
    if not isinstance(leaf, torch.Tensor):
        raise ValueError(
            f"vmap: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.dim() <= dim < leaf.dim():
        raise ValueError(
            f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
        )
    return leaf if dim % leaf.dim() == 0 else leaf.movedim(dim, 0)


def _size(values: list[Any], dims: list[int | None]) -> int:
    sizes = {v.shape[0] for v, dim in zip(values, dims, strict=True) if dim is not None}
    if not sizes:
        raise ValueError("vmap: at least one of in_dims must be a number, but all of them are None")
    if len(sizes) != 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got "
            f"sizes {sorted(sizes)} for the mapped dimension"
        )
    return sizes.pop()


def _in_chunks(
    run: Callable[..., Any], values: list[Any], dims: list[int | None], size: int, most: int
) -> tuple[list[Any], Any]:
    parts = []
    for start in range(0, size, most):
        count = min(most, size - start)
        chunk = [v if dim is None else v.narrow(0, start, count)
                 for v, dim in zip(values, dims, strict=True)]  # fmt: skip
        parts.append(run(chunk, count))
    columns = zip(*(results for results, _ in parts), strict=True)
    return [torch.cat(column) for column in columns], parts[0][1]


def _placed(results: list[Any], spec: Any, out_dims: Any) -> Any:
    """The batch where `out_dims` says; None: only the first example, for what is the same."""
    dims = [out_dims] * len(results) if isinstance(out_dims, int) else tree_leaves(
        list(out_dims) if isinstance(out_dims, tuple) else out_dims)  # fmt: skip
    if len(dims) != len(results):
        dims = _spread_out(out_dims, tree_unflatten(results, spec))
    moved = [r if dim in (0, None) else r.movedim(0, dim)
             for r, dim in zip(results, dims, strict=True)]  # fmt: skip
    return tree_unflatten(moved, spec)


def _spread_out(out_dims: Any, tree: Any) -> list[int | None]:
    try:
        return spread(out_dims, tree)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise ValueError(
            f"vmap: out_dims is not compatible with the structure of the outputs: out_dims is "
            f"{out_dims}, the outputs have the structure {tree_flatten(tree)[1]}"
        ) from error


class _Call:
    """One call of a vmapped function."""

    def __init__(self, func: Callable[..., Any], size: int, randomness: str) -> None:
        self.func, self.size, self.randomness = func, size, randomness

    def run(self, values: list[Any], mapped: list[bool]) -> tuple[list[Any], Any]:
        """The results with the batch in front, and the tree in which they stand."""
        try:
            return self._recorded(values, mapped)
        except NoRule as missing:
            warnings.warn(
                f"vmap: there is no batching rule for {missing}, so the function is called for "
                "each example",
                stacklevel=4,
            )
            return self._looped(values, mapped)

    def _looped(self, values: list[Any], mapped: list[bool]) -> tuple[list[Any], Any]:
        results = [
            self.func(*(v.select(0, i) if is_mapped else v
                        for v, is_mapped in zip(values, mapped, strict=True)))
            for i in range(self.size)
        ]  # fmt: skip
        spec = tree_flatten(results[0])[1]
        columns = zip(*(tree_leaves(result) for result in results), strict=True)
        return [torch.stack([torch.as_tensor(p) for p in parts]) for parts in columns], spec

    def _recorded(self, values: list[Any], mapped: list[bool]) -> tuple[list[Any], Any]:
        nodes = [v._value() if m else None for v, m in zip(values, mapped, strict=True)]
        edges = [edge_of(v) if m and STATE.grad and v.dtype.is_inexact else None
                 for v, m in zip(values, mapped, strict=True)]  # fmt: skip
        offset = default_generator._offset
        with Example(self.randomness) as example:
            given, leaves = _examples(example, values, nodes, edges)
            since = example.start if self.randomness == "different" else None
            batch = example.batch = Batch(self.size, dict(leaves), since)
            seen, WATCH.seen = WATCH.seen, []
            try:
                results = self.func(*given)
            finally:
                watched, WATCH.seen = WATCH.seen, seen
            flat, spec = tree_flatten(results)
            _check_results(flat)
            found = [full(v, self.size) for v in batch.values([r._value() for r in flat])]
            needs = [r.requires_grad for r in flat]
        made = [TENSORS.make(node) for node in found]
        if any(needs) and STATE.grad:
            captured = _captured(watched, example.start, given)
            fn = VmapFn(self, values, mapped, edges, captured, made, needs, offset)
            for number, position in enumerate(i for i, need in enumerate(needs) if need):
                TENSORS.attach(made[position], fn, number)
        return made, spec


def _examples(
    example: Example, values: list[Any], nodes: list[Any], edges: list[Any]
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """The arguments of one example, and (leaf of the example, node of the batch) of the mapped."""
    given, leaves = [], []
    for value, node, edge in zip(values, nodes, edges, strict=True):
        if node is None:
            given.append(value)
            continue
        leaf = example.leaf(node)
        leaves.append((leaf, node))
        made = TENSORS.make(leaf)
        given.append(made if edge is None else made.requires_grad_())
    return given, leaves


def _check_results(flat: list[Any]) -> None:
    for result in flat:
        if not isinstance(result, torch.Tensor):
            raise ValueError(
                f"vmap: the function must only return Tensors, got type {type(result)} as a return."
            )


def _captured(watched: list[Any], start: int, given: list[Any]) -> list[Any]:
    """Tensors from outside whose gradient is wanted, each once: those with a history or leaves,
    whose value was there before the recording."""
    own = {id(tensor) for tensor in given}
    found = {}
    for tensor in watched:
        edge = edge_of(tensor)
        old = _made_at(tensor) < start
        if old and edge is not None and (id(tensor) not in own or tensor.is_leaf):
            found.setdefault((id(edge[0]), edge[1]), tensor)
    return list(found.values())


def _made_at(tensor: Any) -> int:
    """The serial of a tensor's value; memory that others see is read anew at each use, so there
    that of the memory counts."""
    storage = tensor._storage
    return (tensor._value() if storage.foreign is None else storage.node).serial


class VmapFn(GradFn):
    """The gradient of a vmapped call: that of one example, on the batch.

    inputs: the mapped arguments that need a gradient, then the captured tensors.
    """

    __slots__ = (
        "call", "holders", "mapped", "targets", "captured", "needs", "offset", "versions", "others",
    )  # fmt: skip

    def __init__(
        self, call: _Call, values: list[Any], mapped: list[bool], edges: list[Any],
        captured: list[Any], made: list[Any], needs: list[bool], offset: int,
    ) -> None:  # fmt: skip
        likes = [(t._shape, t._dtype) for t, need in zip(made, needs, strict=True) if need]
        super().__init__([*edges, *map(edge_of, captured)], likes, "VmapBackward0")
        self.call, self.mapped, self.captured, self.needs = call, mapped, captured, needs
        self.holders: list[Any] | None = [
            TENSORS.hold(v._value()) if m else None for v, m in zip(values, mapped, strict=True)
        ]
        self.others = [None if m else v for v, m in zip(values, mapped, strict=True)]
        self.versions = [tensor._version for tensor in captured]
        self.offset = offset

    def apply(self, grads: list[Any], create_graph: bool) -> Sequence[Any]:
        if self.holders is None:
            raise RuntimeError(
                "Trying to backward through a vmapped call a second time. Specify "
                "retain_graph=True if you need to."
            )
        if self.versions != [tensor._version for tensor in self.captured]:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: a tensor that a vmapped function uses"
            )
        values = [self._again(i) for i in range(len(self.holders))]
        given = [
            torch.zeros(like[0], dtype=like[1]) if g is None else g
            for g, like in zip(grads, self.likes, strict=True)
        ]
        now, default_generator._offset = default_generator._offset, self.offset
        try:
            with torch.set_grad_enabled(create_graph):
                found = self._gradients(values, given)
        finally:
            default_generator._offset = max(now, default_generator._offset)
        return found

    def _again(self, i: int) -> Any:
        """Argument `i` with the value and the history that it had."""
        holder = self.holders[i]  # type: ignore[index]
        if holder is None:
            return self.others[i]
        tensor = TENSORS.make(holder.node)
        return tensor if self.edges[i] is None else TENSORS.attach(tensor, *self.edges[i])

    def _gradients(self, values: list[Any], grads: list[Any]) -> list[Any]:
        count = len(values)
        wanted = [i for i in range(count) if self.edges[i] is not None]

        def example(*one: Any) -> Any:
            with torch.enable_grad():
                inputs = [
                    x.view_as(x) if i in wanted and x.requires_grad else
                    x.detach().requires_grad_() if i in wanted else x
                    for i, x in enumerate(one[:count])
                ]  # fmt: skip
                flat = tree_leaves(self.call.func(*inputs))
                outs = [r for r, need in zip(flat, self.needs, strict=True) if need]
                targets = [*(inputs[i] for i in wanted), *self.captured]
                pairs = [(out, g) for out, g in zip(outs, one[count:], strict=True)
                         if edge_of(out) is not None]  # fmt: skip
                edges = [edge_of(t) for t in targets]
                found = engine.run(
                    [edge_of(out) for out, _ in pairs], [g for _, g in pairs], retain=True,
                    create_graph=STATE.grad, capture=edges, accumulate=False,
                )  # fmt: skip
            return [torch.zeros_like(t) if g is None else g
                    for t, g in zip(targets, found, strict=True)]  # fmt: skip

        call = _Call(example, self.call.size, self.call.randomness)
        found, _ = call.run([*values, *grads], [*self.mapped, *[True] * len(grads)])
        result: list[Any] = [None] * count
        for position, i in enumerate(wanted):
            result[i] = found[position]
        return [*result, *(g.sum(0) for g in found[len(wanted) :])]

    def release(self) -> None:
        self.holders = None


__all__ = ["spread", "vmap"]
