"""`fully_shard`: the parameters of a module as DTensors, brought together while it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import rushlight as torch
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.fsdp.api import MixedPrecisionPolicy, OffloadPolicy
from rushlight.distributed.fsdp.unit import Unit, cast_tensors, mark_managed
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.make import distribute_tensor
from rushlight.distributed.tensor.placement_types import Replicate, Shard


class UnshardHandle:
    """What `unshard(async_op=True)` gives."""

    def wait(self) -> None:
        """The parameters are together: nothing was sent."""


class FSDPModule:
    """The methods that a module has after `fully_shard`. Those about when and how parameters are
    sent are accepted: in a group of one nothing is sent."""

    _fsdp_unit: Unit
    _fsdp_policy: MixedPrecisionPolicy

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the module's own class."""
        kind = cls.__mro__[2]
        made = kind.__new__(kind)  # type: ignore[call-overload]
        made.__init__(*args, **kwargs)
        return made

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Bring the module's parameters together until `reshard`."""
        if not self._fsdp_unit.gathered:
            self._fsdp_unit.gathered = True
            self._fsdp_unit.gather()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Lay the module's parameters out again."""
        if self._fsdp_unit.gathered:
            self._fsdp_unit.gathered = False
            self._fsdp_unit.spread()

    def _accepted(self, *_: Any, **__: Any) -> None:
        """Accepted: nothing is sent."""

    set_is_last_backward = set_requires_gradient_sync = set_requires_all_reduce = _accepted
    set_reshard_after_forward = set_reshard_after_backward = _accepted
    set_modules_to_forward_prefetch = set_modules_to_backward_prefetch = _accepted
    set_post_optim_event = set_unshard_in_backward = reset_iter_state = _accepted
    set_allocate_memory_from_process_group_for_comm = set_symm_mem_for_comm = _accepted
    set_force_sum_reduction_for_comms = set_separate_reduce_scatter_group = _accepted
    set_reduce_scatter_unused_params = set_reduce_scatter_max_input_buffers = _accepted
    set_custom_all_gather = set_custom_reduce_scatter = set_all_reduce_hook = _accepted

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what gradients are divided instead of the number of processes."""
        if factor != 1:
            raise NotImplementedError(
                f"set_gradient_divide_factor: factor={factor}; allowed is 1 in a group of one "
                "process: divide the loss"
            )

    set_reduce_scatter_divide_factor = set_gradient_divide_factor


@functools.cache
def _sharded_class(kind: type) -> type:
    made = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    made.__qualname__ = f"FSDP{kind.__qualname__}"
    return made


def _unit_modules(root: Any) -> list[Any]:
    """The modules below that are in no other unit."""
    found, waiting = [], [root]
    while waiting:
        module = waiting.pop()
        if module in found or (module is not root and isinstance(module, FSDPModule)):
            continue
        found.append(module)
        waiting += [child for child in module._modules.values() if child is not None]
    return found


def _check(module: Any) -> None:
    if isinstance(module, torch.nn.ModuleList | torch.nn.ModuleDict) and (
        type(module).forward is torch.nn.Module.forward
    ):
        raise ValueError(
            f"fully_shard does not support containers that do not implement forward: {module}"
        )
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"expected Module but got {type(module)}")
    if isinstance(module, FSDPModule):
        raise ValueError(f"fully_shard has already been applied to {module}")


def _place(param: Any, mesh: DeviceMesh, choose: Callable[[Any], Any] | None) -> Any:
    if isinstance(param, DTensor):
        return mark_managed(param)
    chosen = choose(param) if choose is not None else None
    cut = Shard(0) if chosen is None else chosen
    if param.dim() == 0:
        cut = Replicate()
    where = [Replicate()] * (mesh.ndim - 1) + [cut]
    made = distribute_tensor(param, mesh, where)
    if param.grad is not None:
        made.grad = param.grad
    return mark_managed(made)


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None, reshard_after_forward: Any = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None, offload_policy: OffloadPolicy | None = None,
    ignored_params: Iterable[Any] | None = None, **other: Any,
) -> Any:  # fmt: skip
    """Lay the parameters of a module out over the mesh, in place, and give the module.

    Parameters in modules below that were given before stay in their units. The module's class gets
    the methods of FSDPModule. mp_policy: dtypes while it runs. A list of modules makes one unit.
    Raises ValueError for containers without a forward, and when it was done before.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = fully_shard(torch.nn.Linear(3, 2))
    >>> type(model).__name__, model.weight.placements, model(torch.ones(1, 3)).shape
    ('FSDPLinear', (Shard(dim=0),), torch.Size([1, 2]))
    >>> dist.destroy_process_group()
    """
    roots = list(module) if isinstance(module, list | tuple) else [module]
    for root in roots:
        _check(root)
    mesh = init_device_mesh("cpu", (1,)) if mesh is None else mesh
    policy = mp_policy or MixedPrecisionPolicy()
    ignored = frozenset(map(id, ignored_params or ()))
    modules = [inner for root in roots for inner in _unit_modules(root)]
    unit = Unit(dict.fromkeys(modules), policy.param_dtype, policy.reduce_dtype, ignored)
    unit.lay_out(lambda param: _place(param, mesh, shard_placement_fn))
    for root in roots:
        root._fsdp_unit, root._fsdp_policy = unit, policy
        root.register_forward_pre_hook(_before, prepend=True, with_kwargs=True)
        root.register_forward_hook(_after, always_call=True)
        root.__class__ = _sharded_class(type(root))
    return module


def _before(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    policy = module._fsdp_policy
    module._fsdp_unit.gather()
    if not policy.cast_forward_inputs:
        return args, kwargs
    return cast_tensors(args, policy.param_dtype), cast_tensors(kwargs, policy.param_dtype)


def _after(module: Any, args: Any, output: Any) -> Any:
    module._fsdp_unit.spread()
    return cast_tensors(output, module._fsdp_policy.output_dtype)


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Another method of the module that is a forward: parameters are brought together for it."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    original = getattr(module, method_name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _before(module, args, kwargs)
        output = None
        try:
            output = original(*args, **kwargs)
        finally:
            output = _after(module, args, output)
        return output

    object.__setattr__(module, method_name, wrapped)


def share_comm_ctx(modules: Iterable[Any]) -> None:
    """Accepted: nothing is sent."""
