"""State dicts of models and optimizers by the parameters' own names, whatever wraps the model.

In: a model, perhaps compiled, in DistributedDataParallel, FSDP or checkpoint wrappers, and its
optimizers. Out: dicts that a plain model and another number of processes can load.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight.distributed.prefixes import PARALLEL, clean_name
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.make import distribute_tensor
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "FQNS_T", "PrimitiveType", "ValueType", "DictValueType", "ListDictValueType",
    "OptimizerStateType", "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict",
    "get_state_dict", "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

FQNS_T = set[str]
PrimitiveType = torch.Tensor | int | float | str
ValueType = PrimitiveType | list | tuple | dict
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]
STATE, GROUPS = "state", "param_groups"


@dataclass
class StateDictOptions:
    """full_state_dict: whole tensors, no DTensors. cpu_offload: on the CPU. flatten_optimizer_state
    _dict: one flat dict. broadcast_from_rank0: others have the values from process 0."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _bare(model: Any) -> tuple[Any, str]:
    """The prefix of the model's keys that wrappers at its top make."""
    prefix = ""
    while True:
        if hasattr(model, "_orig_mod"):
            model, prefix = model._orig_mod, f"{prefix}_orig_mod."
        elif isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel):
            model, prefix = model.module, f"{prefix}{PARALLEL}"
        else:
            return model, prefix


def _names(model: Any) -> dict[int, str]:
    """The parameters' names in the bare model."""
    _, prefix = _bare(model)
    return {
        id(param): clean_name(name.removeprefix(prefix))
        for name, param in model.named_parameters(remove_duplicate=False)
    }


def _value(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload else value


def _part(model: Any, submodules: Any, key: str, options: StateDictOptions) -> str | None:
    """The key in a state dict of some modules only; None for what is outside of them."""
    if not submodules:
        return key
    for name, module in model.named_modules():
        if module in submodules and name and key.startswith(f"{clean_name(name)}."):
            return key if options.keep_submodule_prefixes else key[len(clean_name(name)) + 1 :]
    return None


def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's state dict with the bare model's keys."""
    options = options or StateDictOptions()
    bare, prefix = _bare(model)
    frozen = {clean_name(name) for name, param in bare.named_parameters()
              if not param.requires_grad}  # fmt: skip
    found = type(bare.state_dict())()
    for name, value in model.state_dict().items():
        key = clean_name(name.removeprefix(prefix))
        place = _part(bare, submodules, key, options)
        if place is None or (options.ignore_frozen_params and key in frozen):
            continue
        found[place] = _value(value, options)
    return found


def set_model_state_dict(
    model: Any, model_state_dict: dict[Any, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load what `get_model_state_dict` gave; gives what `load_state_dict` gives.

    model_state_dict: also {submodule: its state dict}.
    """
    options = options or StateDictOptions()
    bare, _ = _bare(model)
    given: dict[str, Any] = {}
    for key, value in model_state_dict.items():
        if isinstance(key, torch.nn.Module):
            inside = next(name for name, module in bare.named_modules() if module is key)
            given |= {f"{clean_name(inside)}.{name}": part for name, part in value.items()}
        else:
            given[key] = value
    own = {clean_name(name): (name, value) for name, value in bare.state_dict().items()}
    if options.ignore_frozen_params:
        frozen = [clean_name(n) for n, p in bare.named_parameters() if not p.requires_grad]
        given |= {name: own[name][1] for name in frozen if name not in given}
    laid = {}
    for key, value in given.items():
        name, current = own.get(key, (key, None))
        if isinstance(current, DTensor) and not isinstance(value, DTensor):
            value = distribute_tensor(value.detach(), current.device_mesh, current.placements)
        elif isinstance(value, DTensor) and not isinstance(current, DTensor):
            value = value.full_tensor()
        laid[name] = value
    return bare.load_state_dict(laid, strict=options.strict)


def _listed(optimizers: Any) -> list[Any]:
    several = isinstance(optimizers, Iterable)
    return list(optimizers) if several else [optimizers]


def _make_state(optim: Any) -> None:
    """An optimizer that has not stepped gets its state, by a step that changes no value."""
    if optim.state:
        return
    params = [p for group in optim.param_groups for p in group["params"]]
    if any(p.grad is not None for p in params):
        return  # its first step comes, and makes the state
    rates = [group["lr"] for group in optim.param_groups]
    for group in optim.param_groups:
        rate = group["lr"]
        group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
    for param in params:
        if param.requires_grad:
            param.grad = torch.zeros_like(param)
    optim.step(closure=None)
    for group, rate in zip(optim.param_groups, rates, strict=True):
        group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _by_name(model: Any, optim: Any, options: StateDictOptions) -> dict[str, Any]:
    _make_state(optim)
    names = _names(model)
    params = [p for group in optim.param_groups for p in group["params"]]
    order = [names[id(param)] for param in params]
    given = optim.state_dict()
    state = {
        order[number]: {key: _value(value, options) for key, value in values.items()}
        for number, values in given[STATE].items()
    }
    groups = [
        {**{key: _value(value, options) for key, value in group.items()},
         "params": [order[number] for number in group["params"]]}
        for group in given[GROUPS]
    ]  # fmt: skip
    return {STATE: state, GROUPS: groups}


def _flat(state_dict: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, values in state_dict[STATE].items():
        found |= {f"{STATE}.{name}.{key}": value for key, value in values.items()}
    for group in state_dict[GROUPS]:
        for name in group["params"]:
            found |= {f"{GROUPS}.{name}.{key}": value for key, value in group.items()
                      if key != "params"}  # fmt: skip
    return found


def _nested(model: Any, optim: Any, flat: dict[str, Any]) -> dict[str, Any]:
    """The nested dict of a flat one, in the optimizer's groups."""
    names = _names(model)
    state: dict[str, dict[str, Any]] = {}
    groups = []
    for group in optim.param_groups:
        inside = [names[id(param)] for param in group["params"]]
        for name in inside:
            start = f"{STATE}.{name}."
            state[name] = {key[len(start):]: value for key, value in flat.items()
                           if key.startswith(start)}  # fmt: skip
        start = f"{GROUPS}.{inside[0]}."
        settings = {key[len(start):]: value for key, value in flat.items()
                    if key.startswith(start)}  # fmt: skip
        groups.append({**settings, "params": inside})
    return {STATE: {name: values for name, values in state.items() if values}, GROUPS: groups}


def get_optimizer_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The optimizers' state by names of parameters; made first where no step was taken."""
    options = options or StateDictOptions()
    found: dict[str, Any] = {STATE: {}, GROUPS: []}
    for optim in _listed(optimizers):
        one = _by_name(model, optim, options)
        found[STATE] |= one[STATE]
        found[GROUPS] += one[GROUPS]
    if submodules:
        bare, _ = _bare(model)
        found[STATE] = {name: values for name, values in found[STATE].items()
                        if _part(bare, submodules, name, options)}  # fmt: skip
    return _flat(found) if options.flatten_optimizer_state_dict else found


def set_optimizer_state_dict(
    model: Any, optimizers: Any, optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Load what `get_optimizer_state_dict` gave."""
    options = options or StateDictOptions()
    names = _names(model)
    for optim in _listed(optimizers):
        given = optim_state_dict
        if STATE not in given and GROUPS not in given:
            given = _nested(model, optim, given)
        _make_state(optim)
        _load_one(optim, names, given)


def _load_one(optim: Any, names: dict[int, str], given: dict[str, Any]) -> None:
    own = optim.state_dict()
    order = [names[id(p)] for group in optim.param_groups for p in group["params"]]
    by_first = {name: group for group in given[GROUPS] for name in group["params"]}
    groups = []
    for group in own[GROUPS]:
        first = order[group["params"][0]] if group["params"] else None
        if first not in by_first:
            raise ValueError("loaded state dict has a different number of parameter groups")
        groups.append({**by_first[first], "params": group["params"]})
    params = [p for group in optim.param_groups for p in group["params"]]
    state = {
        number: {key: _laid(value, params[number]) for key, value in given[STATE][name].items()}
        for number, name in enumerate(order)
        if name in given[STATE]
    }
    optim.load_state_dict({STATE: state, GROUPS: groups})


def _laid(value: Any, param: Any) -> Any:
    """A state of a parameter that lies on a mesh lies as the parameter does."""
    is_tensor = isinstance(value, torch.Tensor) and value.dim() > 0
    if isinstance(param, DTensor) and is_tensor and not isinstance(value, DTensor):
        return distribute_tensor(value.detach(), param.device_mesh, param.placements)
    return value


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dicts of the model and of its optimizers, by the parameters' names.

    >>> model = torch.nn.Linear(2, 1)
    >>> states = get_state_dict(model, torch.optim.SGD(model.parameters(), momentum=0.9))
    >>> sorted(states[0]), sorted(states[1]["state"])
    (['bias', 'weight'], ['bias', 'weight'])
    """
    found = get_model_state_dict(model, submodules=submodules, options=options)
    several = _listed(optimizers)
    if not several:
        return found, {STATE: {}, GROUPS: []}
    return found, get_optimizer_state_dict(model, several, submodules=submodules, options=options)


def set_state_dict(
    model: Any, optimizers: Any, *, model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any], options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """Load what `get_state_dict` gave; gives what `load_state_dict` gives."""
    if _listed(optimizers):
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
