"""functional_call: a module with other parameters and buffers, for one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module

Tensor = torch.Tensor


def tied_names(module: Module, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors under all names that the module has for the same tensor."""
    groups: dict[int, list[str]] = {}
    for named in (module.named_parameters, module.named_buffers):
        for name, tensor in named(remove_duplicate=False):
            groups.setdefault(id(tensor), []).append(name)
    out = dict(given)
    for names in groups.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            listed = ", ".join(name for name in names if name in given)
            raise ValueError(
                "functional_call got multiple values for keys "
                f"{sorted(name for name in names if name in given)}, which are tied. Consider "
                f"using tie_weights=False ({listed})"
            )
        for value in values.values():
            out.update(dict.fromkeys(names, value))
    return out


def check_keys(module: Module, given: dict[str, Tensor]) -> None:
    """Raise unless there is a tensor for every name, and no other."""
    known = {
        name
        for named in (module.named_parameters, module.named_buffers)
        for name, _ in named(remove_duplicate=False)
    }
    unexpected, missing = sorted(set(given) - known), sorted(known - set(given))
    messages = [
        f"{kind} key(s): " + ", ".join(f"'{name}'" for name in names) + "."
        for kind, names in (("Unexpected", unexpected), ("Missing", missing))
        if names
    ]
    if messages:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(messages)
        )


@contextmanager
def _replaced(module: Module, given: dict[str, Tensor]) -> Iterator[None]:
    """Put tensors into the registries; put the own ones back at the end."""
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, tensor in given.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            registry = owner._parameters if name in owner._parameters else owner._buffers
            if name not in registry:  # `strict` says if that is an error
                continue
            before.append((registry, name, registry[name]))
            registry[name] = tensor
        yield
    finally:
        for registry, name, tensor in reversed(before):
            registry[name] = tensor


@contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Inside, the module has these parameters and buffers; see `functional_call`."""
    given = parameters_and_buffers
    if strict:
        check_keys(module, given)
    with _replaced(module, tied_names(module, given) if tie_weights else given):
        yield


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor] | tuple[dict[str, Tensor], ...],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its own; gradients flow to them.

    Args:
        parameters_and_buffers: tensors by dotted name; names that are missing keep their own.
        args: the arguments: a tuple, or one argument.
        tie_weights: a tensor with several names is replaced under all of them.
        strict: raise unless all names are there.

    Example:
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> functional_call(layer, {"weight": torch.tensor([[3.0]])}, torch.ones(1, 1)).item()
        3.0
    """
    given = parameters_and_buffers
    if not isinstance(given, dict):
        keys = [key for part in given for key in part]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(
                f"{twice[0]} appears in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        given = {key: value for part in given for key, value in part.items()}
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, given, tie_weights, strict):
        return module(*positional, **({} if kwargs is None else kwargs))
