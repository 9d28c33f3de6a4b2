"""`parallelize_module`: styles applied to the modules that a plan names."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.dtensor import require_mesh
from rushlight.distributed.tensor.parallel.style import ParallelStyle
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = ["parallelize_module", "loss_parallel"]
Plan = ParallelStyle | dict[str, ParallelStyle] | None


def parallelize_module(
    module: Any, device_mesh: DeviceMesh | None = None, parallelize_plan: Plan = None, *,
    src_data_rank: int | None = 0,
) -> Any:  # fmt: skip
    """Lay a module out over a mesh with one axis, in place.

    parallelize_plan: a style, or styles by names of modules below ("layers.*.w1"). Raises
    ValueError for a mesh with more axes, TypeError for a plan of another kind.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    >>> parallel = dist.tensor.parallel
    >>> plan = {"0": parallel.ColwiseParallel(), "1": parallel.RowwiseParallel()}
    >>> model = parallelize_module(model, dist.init_device_mesh("cpu", (1,)), plan)
    >>> model[0].weight.placements, model(torch.ones(3, 4)).shape
    ((Shard(dim=0),), torch.Size([3, 2]))
    >>> dist.destroy_process_group()
    """
    mesh = require_mesh(device_mesh)
    if mesh.ndim > 1:
        raise ValueError(f"Only support one-dimensional device mesh, got {mesh}")
    if parallelize_plan is None:
        text = (
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so "
            "this parallelize_module call will do nothing."
        )
        warnings.warn(text, stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError("Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for "
                        f"parallelize_plan, {type(parallelize_plan)} found!")  # fmt: skip
    for path, style in parallelize_plan.items():
        found = _matching(module, path.split(".") if path else [])
        if not found:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule "
                          "matching it", stacklevel=2)  # fmt: skip
        for part in found:
            parallelize_module(part, mesh, style)
    return module


def _matching(module: Any, parts: list[str]) -> list[Any]:
    if not parts:
        return [module]
    return [
        found
        for name, child in module.named_children()
        if fnmatch(name, parts[0])
        for found in _matching(child, parts[1:])
    ]


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside, cross entropy takes logits whose classes are shared out: one process has them all."""
    yield
