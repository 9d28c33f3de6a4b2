"""An optimizer's state by names of parameters instead of numbers, and back."""

from __future__ import annotations

from typing import Any

from rushlight.distributed.prefixes import clean_name


def names_of(model: Any) -> dict[int, str]:
    """The clean name of each parameter, by its identity."""
    return {id(param): clean_name(name) for name, param in model.named_parameters()}


def numbered_names(model: Any, optim: Any) -> list[str]:
    """The names in the order of the optimizer's numbers."""
    names = names_of(model)
    found = []
    for group in optim.param_groups:
        for param in group["params"]:
            if id(param) not in names:
                raise KeyError("the optimizer has a parameter that the model does not have")
            found.append(names[id(param)])
    return found


def by_name(model: Any, optim: Any, state_dict: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state dict with names for numbers."""
    names = numbered_names(model, optim)
    given = optim.state_dict() if state_dict is None else state_dict
    return {
        "state": {names[number]: dict(state) for number, state in given["state"].items()},
        "param_groups": [
            {**group, "params": [names[number] for number in group["params"]]}
            for group in given["param_groups"]
        ],
    }


def by_number(model: Any, optim: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state dict with numbers for names."""
    numbers = {name: number for number, name in enumerate(numbered_names(model, optim))}
    groups = []
    for own, group in zip(optim.state_dict()["param_groups"], state_dict["param_groups"],
                          strict=True):  # fmt: skip
        groups.append({**group, "params": own["params"]})
    return {
        "state": {numbers[name]: dict(state) for name, state in state_dict["state"].items()
                  if name in numbers},
        "param_groups": groups,
    }  # fmt: skip
