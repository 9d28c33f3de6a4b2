"""Distributed tensors from whole tensors, sizes and modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.dtensor import DTensor, normalized, require_mesh, wrapped
from rushlight.distributed.tensor.placement_types import Placement, Replicate

Placements = Sequence[Placement] | None


def distribute_tensor(
    tensor: Any, device_mesh: DeviceMesh | None = None, placements: Placements = None, *,
    src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """A leaf on the mesh, replicated unless `placements` say more; a parameter stays one.

    Raises RuntimeError for a tensor that is not a leaf, ValueError for other placements of a
    DTensor.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(torch.arange(4), mesh, [dist.tensor.Shard(0)])
    >>> x.placements, x.full_tensor().tolist()
    ((Shard(dim=0),), [0, 1, 2, 3])
    >>> dist.destroy_process_group()
    """
    mesh = require_mesh(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf "
            "tensor!"
        )
    laid = normalized(placements, mesh, tensor.dim())
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different "
                f"device mesh {mesh}."
            )
        if tensor.placements != laid:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
                f"placements {laid}. do you want to call `redistribute` instead?"
            )
        return tensor
    if any(placement.is_partial() for placement in laid):
        raise RuntimeError("Trying to distribute a leaf tensor with unsupported placements")
    made = wrapped(tensor.detach(), mesh, laid)
    if isinstance(tensor, torch.nn.Parameter):
        return made._as_parameter(tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


def distribute_module(
    module: Any, device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[..., None] | None = None, input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Parameters and buffers of the module become DTensors, in place.

    partition_fn(name, module, mesh): lays out the parameters of a submodule; the others become
    replicated. input_fn(module, inputs, mesh), output_fn(module, outputs, mesh): around a call.
    """
    mesh = require_mesh(device_mesh)
    for name, child in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, child, mesh)
        replicate_parameters(child, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    return module


def replicate_parameters(module: Any, mesh: DeviceMesh) -> None:
    """What of the module's own tensors is not distributed yet becomes replicated."""
    whole = [Replicate()] * mesh.ndim
    for key, param in module._parameters.items():
        if param is not None and not isinstance(param, DTensor):
            made = distribute_tensor(param.detach(), mesh, whole)
            module.register_parameter(key, torch.nn.Parameter(made, param.requires_grad))
    for key, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[key] = distribute_tensor(buffer, mesh, whole)


def _made(tensor: Any, device_mesh: Any, placements: Any, requires_grad: bool) -> DTensor:
    mesh = require_mesh(device_mesh)
    made = wrapped(tensor, mesh, normalized(placements, mesh, tensor.dim()))
    return made.requires_grad_(requires_grad)


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def _maker(name: str, doc: str) -> Callable[..., DTensor]:
    def make(
        *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None, placements: Placements = None,
    ) -> DTensor:  # fmt: skip
        tensor = getattr(torch, name)(_sizes(size), dtype=dtype)
        return _made(tensor, device_mesh, placements, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A distributed tensor of this size: {doc}."
    return make


zeros, ones = _maker("zeros", "zeros"), _maker("ones", "ones")
empty = _maker("empty", "values that are not set")
rand, randn = _maker("rand", "uniform numbers"), _maker("randn", "normal numbers")


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None,
    requires_grad: bool = False, device_mesh: DeviceMesh | None = None,
    placements: Placements = None,
) -> DTensor:  # fmt: skip
    """A distributed tensor of this size: `fill_value` everywhere."""
    tensor = torch.full(tuple(size), fill_value, dtype=dtype)
    return _made(tensor, device_mesh, placements, requires_grad)
