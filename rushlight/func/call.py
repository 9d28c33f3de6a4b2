"""A module called with parameters and buffers that are given, not its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import rushlight as torch


def _place(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The registry that holds a parameter or buffer, and its key there."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path) if path else module
    for registry in (owner._parameters, owner._buffers):
        if leaf in registry:
            return registry, leaf
    raise RuntimeError(f"{type(module).__name__} has no parameter or buffer {name!r}")


def _tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Also the other names of parameters that have several."""
    everything = [*module.named_parameters(remove_duplicate=False),
                  *module.named_buffers(remove_duplicate=False)]  # fmt: skip
    by_id: dict[int, Any] = {id(value): given[name] for name, value in everything if name in given}
    more = {name: by_id[id(value)] for name, value in everything if id(value) in by_id}
    return {**more, **given}


@contextmanager
def replaced(
    module: Any, values: Mapping[str, Any], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Inside, the module has these parameters and buffers."""
    given = dict(values)
    if strict:
        own = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
        if own != set(given):
            raise RuntimeError(
                f"Missing key(s): {sorted(own - set(given))}. Unexpected key(s): "
                f"{sorted(set(given) - own)}."
            )
    if tie_weights:
        given = _tied(module, given)
    places = [(*_place(module, name), value) for name, value in given.items()]
    before = [(registry, key, registry[key]) for registry, key, _ in places]
    try:
        for registry, key, value in places:
            registry[key] = value
        yield
    finally:
        for registry, key, value in before:
            registry[key] = value


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """`module(*args, **kwargs)` with the given parameters and buffers in place of its own.

    parameter_and_buffer_dicts: {"name": tensor}, or several of them. args: a tuple, or one value.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.ones(1, 2))
    tensor([[2.]])
    """
    given = parameter_and_buffer_dicts
    if not isinstance(given, Mapping | list | tuple):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    values: dict[str, Any] = {}
    for part in [given] if isinstance(given, Mapping) else given:
        twice = set(values) & set(part)
        if twice:
            raise ValueError(f"{sorted(twice)} appear in more than one of the dictionaries")
        values.update(part)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, values, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters, and the buffers, of models of one kind, stacked along a new dimension."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not all(type(model) is type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    all_params = [dict(model.named_parameters()) for model in models]
    all_buffers = [dict(model.named_buffers()) for model in models]
    params = {name: torch.stack([own[name].detach() for own in all_params]).requires_grad_(
        value.requires_grad) for name, value in all_params[0].items()}  # fmt: skip
    buffers = {name: torch.stack([own[name] for own in all_buffers]) for name in all_buffers[0]}
    return params, buffers
