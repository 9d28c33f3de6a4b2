"""The package `functorch`, older than torch.func: the same functions, and modules as functions of
their parameters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "make_functional", "make_functional_with_buffers", "stack_module_state", "vjp", "vmap",
]  # fmt: skip


class FunctionalModuleWithBuffers(torch.nn.Module):
    """A module without values of its own: `f(params, buffers, *args)`."""

    def __init__(self, model: Any, param_names: Sequence[str], buffer_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        values = dict(zip(self.param_names, params, strict=True))
        values.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, values, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without values of its own and without buffers: `f(params, *args)`."""

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().forward(params, (), *args, **kwargs)


def _parts(model: Any, detached: bool) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    params = {name: p.detach() if detached else p
              for name, p in model.named_parameters()}  # fmt: skip
    return copy.deepcopy(model).to("meta"), params, dict(model.named_buffers())


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """A function of parameters, buffers and inputs, and the module's parameters and buffers."""
    empty, params, buffers = _parts(model, disable_autograd_tracking)
    function = FunctionalModuleWithBuffers(empty, list(params), list(buffers))
    return function, tuple(params.values()), tuple(buffers.values())


def make_functional(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple]:
    """A function of parameters and inputs, and the module's parameters; for one without buffers."""
    empty, params, buffers = _parts(model, disable_autograd_tracking)
    if buffers:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(empty, list(params), []), tuple(params.values())


def combine_state_for_ensemble(
    models: Sequence[Any],
) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """The function of models of one kind, with their parameters and buffers stacked."""
    params, buffers = stack_module_state(models)
    empty = copy.deepcopy(models[0]).to("meta")
    function = FunctionalModuleWithBuffers(empty, list(params), list(buffers))
    return function, tuple(params.values()), tuple(buffers.values())
