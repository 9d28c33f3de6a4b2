"""Module backward hooks: see and change the gradients at a module's outputs and inputs.

A call with such hooks puts an identity function before and another one behind `forward`:

    args -> InputBoundary -> forward -> OutputBoundary -> result

In the backward pass the gradients reach OutputBoundary first, where the pre-hooks run, and
InputBoundary last, where the hooks run with both tuples of gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import rushlight as torch

Gradients = tuple[torch.Tensor | None, ...]
NO_INPUT_GRADIENTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since "
    "no inputs require gradients."
)
INPUT_BEFORE_OUTPUT = (
    "Module backward hook for grad_input is called before the grad_output one. This happens "
    "because the gradient in your nn.Module flows to the Module's input without passing through "
    "the Module's output. Make sure that the output depends on the input and that the loss is "
    "computed based on the output."
)


class _Boundary(torch.autograd.Function):
    """The identity; its backward gives the gradients to a function first."""

    @staticmethod
    def forward(
        ctx: Any, on_grads: Callable[[Gradients], Gradients], zeros_for_none: bool, *tensors: Any
    ) -> Any:
        outputs = tuple(tensor.view_as(tensor) for tensor in tensors)
        ctx.on_grads = on_grads
        ctx.set_materialize_grads(zeros_for_none)
        ctx.mark_non_differentiable(
            *(out for out, tensor in zip(outputs, tensors, strict=True) if not tensor.requires_grad)
        )
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *ctx.on_grads(grads))


def wrap_tensors(
    on_grads: Callable[[Gradients], Gradients], values: tuple[Any, ...], zeros_for_none: bool
) -> tuple[tuple[Any, ...], list[int]]:
    """Pass the tensors among `values` through a boundary; also return their positions.

    The positions are empty when no gradient can flow, and then nothing was wrapped. A tensor
    that gets no gradient shows as None, or as zeros with `zeros_for_none`.
    """
    places = [place for place, value in enumerate(values) if isinstance(value, torch.Tensor)]
    needs_grad = any(values[place].requires_grad for place in places)
    if not (torch.is_grad_enabled() and needs_grad):
        return values, []
    wrapped = _Boundary.apply(on_grads, zeros_for_none, *(values[place] for place in places))
    out = list(values)
    for place, tensor in zip(places, wrapped, strict=True):
        out[place] = tensor
    return tuple(out), places


def spread(grads: Iterable[Any], places: list[int], length: int) -> Gradients:
    """Put gradients at their positions in a tuple of `length`, with None elsewhere."""
    out: list[torch.Tensor | None] = [None] * length
    for place, grad in zip(places, grads, strict=True):
        out[place] = grad
    return tuple(out)


def replaced(current: Gradients, returned: Any, hook_name: str, what: str) -> Gradients:
    """Take what a hook returned in place of the current gradients; None keeps them."""
    if returned is None:
        return current
    grads = returned if isinstance(returned, tuple) else (returned,)
    if len(grads) != len(current):
        raise RuntimeError(
            f"{hook_name} returned an invalid number of {what}, "
            f"got {len(grads)}, but expected {len(current)}"
        )
    return grads


class BackwardCall:
    """The backward hooks of one call of one module."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        """Keep the hooks as they are at the time of the call."""
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_output: Gradients | None = None
        self.input_places: list[int] = []
        self.output_places: list[int] = []
        self.input_count = 0
        self.output_count = 0

    def wrap_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Place the boundary before `forward`."""
        self.input_count = len(args)
        args, self.input_places = wrap_tensors(self.on_input_grads, args, zeros_for_none=True)
        return args

    def wrap_output(self, result: Any) -> Any:
        """Place the boundary behind `forward`; a result is a tensor or a tuple of values."""
        values = result if isinstance(result, tuple) else (result,)
        self.output_count = len(values)
        values, self.output_places = wrap_tensors(
            self.on_output_grads, values, zeros_for_none=False
        )
        return values if isinstance(result, tuple) else values[0]

    def on_output_grads(self, grads: Gradients) -> Gradients:
        """Run the pre-hooks; with no differentiable input also the hooks, as nobody else will."""
        grad_output = spread(grads, self.output_places, self.output_count)
        for hook in self.pre_hooks:
            returned = hook(self.module, grad_output)
            grad_output = replaced(grad_output, returned, "Backward pre hook", "grad_output")
        self.grad_output = grad_output
        if not self.input_places:
            self.run_hooks_without_inputs(grad_output)
        return tuple(grad_output[place] for place in self.output_places)

    def run_hooks_without_inputs(self, grad_output: Gradients) -> None:
        """Show the hooks only None for the inputs; they can change nothing."""
        if self.hooks:
            warnings.warn(NO_INPUT_GRADIENTS, stacklevel=2)
        for hook in self.hooks:
            returned = hook(self.module, (None,) * self.input_count, grad_output)
            is_tuple_of_none = isinstance(returned, tuple) and all(r is None for r in returned)
            if not (returned is None or is_tuple_of_none):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_output = None

    def on_input_grads(self, grads: Gradients) -> Gradients:
        """Run the hooks with the gradients of the inputs and of the outputs."""
        if self.grad_output is None:
            raise RuntimeError(INPUT_BEFORE_OUTPUT)
        grad_input = spread(grads, self.input_places, self.input_count)
        for hook in self.hooks:
            returned = hook(self.module, grad_input, self.grad_output)
            grad_input = replaced(grad_input, returned, "Backward hook", "grad_input")
        self.grad_output = None
        return tuple(grad_input[place] for place in self.input_places)
