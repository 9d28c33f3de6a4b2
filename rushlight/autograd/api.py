"""torch.autograd.backward and torch.autograd.grad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.autograd import engine
from rushlight.autograd.protocol import TENSORS
from rushlight.base.devices import DEVICES
from rushlight.ir.node import Node, const_node


def _as_tuple(value: Any) -> tuple:
    return (value,) if TENSORS.is_tensor(value) or value is None else tuple(value)


def _seed(output: Any, grad: Any, position: int) -> Any:
    if grad is not None:
        if tuple(grad.shape) != tuple(output.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{position}] has a shape of {grad.shape} and "
                f"output[{position}] has a shape of {output.shape}."
            )
        return grad
    if not output.requires_grad:
        return None
    if output.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if output.dtype.is_complex:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
        )
    return _constant(output, const_node(1, output.dtype))


def _constant(like: Any, number: Node) -> Any:
    """The same number everywhere, on the device of a tensor."""
    shape = tuple(like.shape)
    node = ops.expand.node(number, shape) if shape else number
    place = like.device.type if DEVICES.used else "cpu"
    is_here = place in ("cpu", "meta")
    return TENSORS.make(node if is_here else ops.to_device.node(node, "cpu", place))


def _roots(outputs: Sequence[Any], grads: Sequence[Any]) -> tuple[list, list]:
    roots, seeds = [], []
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    for position, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        seed = _seed(output, grad, position)
        edge = TENSORS.edge(output)
        if edge is None:
            raise RuntimeError(engine.NO_GRAD.format(position))
        roots.append(edge)
        seeds.append(seed)
    return roots, seeds


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, grad_variables: Any = None, inputs: Any = None,
) -> None:  # fmt: skip
    """Add the gradients of `tensors` to the `.grad` of the leaves (or of `inputs`)."""
    tensors = _as_tuple(tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    grads = _as_tuple(given) if given is not None else (None,) * len(tensors)
    if inputs is not None and len(_as_tuple(inputs)) == 0:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots, seeds = _roots(tensors, grads)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        engine.run(roots, seeds, retain=retain, create_graph=create_graph)
    else:
        _backward_inputs(roots, seeds, _as_tuple(inputs), retain, create_graph)
    if not create_graph:
        TENSORS.finish()


def _backward_inputs(
    roots: list, seeds: list, inputs: tuple, retain: bool, create_graph: bool
) -> None:
    edges = []
    for position, tensor in enumerate(inputs):
        edge = TENSORS.edge(tensor)
        if edge is None:
            raise RuntimeError(
                f"One of the differentiated Tensors given as 'inputs' to backward does not require "
                f"grad (number {position})"
            )
        edges.append(edge)
    found = engine.run(roots, seeds, retain=retain, create_graph=create_graph, capture=edges)
    for tensor, grad in zip(inputs, found, strict=True):
        if not tensor.is_leaf and grad is not None:
            tensor._retain(grad) if not tensor.retains_grad else None


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple:  # fmt: skip
    """Gradients of `outputs` with respect to `inputs`, accumulated nowhere."""
    if is_grads_batched:
        raise NotImplementedError("autograd.grad: is_grads_batched=True is not supported")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    grads = _as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outputs)
    edges = [TENSORS.edge(tensor) for tensor in inputs]
    roots, seeds = _roots(outputs, grads)
    if any(edge is None for edge in edges):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    retain = create_graph if retain_graph is None else retain_graph
    found = engine.run(roots, seeds, retain=retain, create_graph=create_graph, capture=edges,
                       accumulate=False)  # fmt: skip
    if materialize_grads:
        return tuple(
            _constant(t, const_node(0, t.dtype)) if g is None else g
            for g, t in zip(found, inputs, strict=True)
        )
    if not allow_unused and any(g is None for g in found):
        index = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        )
    return tuple(found)
