"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import rushlight as torch


def check_same_device(parameters: list[torch.Tensor]) -> None:
    """Raise when the parameters are not all on one device."""
    if len({parameter.device for parameter in parameters}) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )


def parameters_to_vector(parameters: Iterable[torch.Tensor]) -> torch.Tensor:
    """Join the parameters to one vector.

    Example:
        >>> parameters_to_vector([torch.ones(2), torch.zeros(1, 1)])
        tensor([1., 1., 0.])
    """
    parameters = list(parameters)
    check_same_device(parameters)
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: torch.Tensor, parameters: Iterable[torch.Tensor]) -> None:
    """Set each parameter's data to its piece of the vector.

    Example:
        >>> weight = torch.zeros(2)
        >>> vector_to_parameters(torch.tensor([1.0, 2.0]), [weight])
        >>> weight
        tensor([1., 2.])
    """
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    parameters = list(parameters)
    check_same_device(parameters)
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[start : start + count].view_as(parameter).data
        start += count
