"""Styles of tensor parallelism: how the parameters of a layer lie, and its inputs and outputs."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.make import distribute_module, distribute_tensor
from rushlight.distributed.tensor.placement_types import Placement, Replicate, Shard
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "ParallelStyle", "RowwiseParallel", "SequenceParallel", "ColwiseParallel", "PrepareModuleInput",
    "PrepareModuleInputOutput", "PrepareModuleOutput",
]  # fmt: skip
Layouts = Placement | Sequence[Placement | None] | None


class ParallelStyle(abc.ABC):
    """The base: `_apply` changes a module in place."""

    src_data_rank: int | None = 0

    @abc.abstractmethod
    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        """Lay the module out over the mesh."""


def _laid(value: Any, mesh: DeviceMesh, given: Placement, wanted: Placement | None) -> Any:
    """A tensor as a DTensor that lies as wanted."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [given])
    return value if wanted is None else value.redistribute(placements=[wanted])


def _local(value: Any, use_local: bool) -> Any:
    return value.to_local() if use_local and isinstance(value, DTensor) else value


def _place(module: Any, name: str, mesh: DeviceMesh, placement: Placement) -> None:
    param = module._parameters.get(name)
    if param is not None:
        made = distribute_tensor(param.detach(), mesh, [placement])
        module.register_parameter(name, torch.nn.Parameter(made, param.requires_grad))


class _Layer(ParallelStyle):
    """Rowwise and columnwise: a layer whose weight is cut along one dimension."""

    cuts: dict[type, dict[str, Placement]]

    def __init__(self, given: Placement, wanted: Placement, result: Placement, local: bool) -> None:
        self.input_layouts, self.desired_input_layouts = (given,), (wanted,)
        self.output_layouts, self.use_local_output = (result,), local

    def _kind(self, module: Any) -> type:
        for kind in self.cuts:
            if isinstance(module, kind):
                return kind
        raise NotImplementedError(
            f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!"
        )

    def _wanted(self, kind: type) -> Placement:
        return self.desired_input_layouts[0]

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        kind = self._kind(module)

        def partition(name: str, part: Any, mesh: DeviceMesh) -> None:
            for param, placement in self.cuts[kind].items():
                _place(part, param, mesh, placement)

        def before(mod: Any, inputs: tuple, mesh: DeviceMesh) -> tuple:
            first = _laid(inputs[0], mesh, self.input_layouts[0], self._wanted(kind))
            return (first, *inputs[1:])

        def after(mod: Any, outputs: Any, mesh: DeviceMesh) -> Any:
            laid = outputs.redistribute(placements=list(self.output_layouts))
            return _local(laid, self.use_local_output)

        return distribute_module(module, device_mesh, partition, before, after)


class ColwiseParallel(_Layer):
    """The outputs of a Linear, or the columns of an Embedding, are shared out.

    input_layouts: how inputs lie (Replicate). output_layouts: how results lie (Shard(-1)).
    """

    cuts = {  # noqa: RUF012
        torch.nn.Linear: {"weight": Shard(0), "bias": Shard(0)},
        torch.nn.Embedding: {"weight": Shard(1)},
    }

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            input_layouts or Replicate(), Replicate(), output_layouts or Shard(-1), use_local_output
        )


class RowwiseParallel(_Layer):
    """The inputs of a Linear, or the rows of an Embedding, are shared out.

    input_layouts: how inputs lie (Shard(-1)). output_layouts: how results lie (Replicate).
    """

    cuts = {  # noqa: RUF012
        torch.nn.Linear: {"weight": Shard(1), "bias": Replicate()},
        torch.nn.Embedding: {"weight": Shard(0)},
    }

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            input_layouts or Shard(-1), Shard(-1), output_layouts or Replicate(), use_local_output
        )

    def _wanted(self, kind: type) -> Placement:
        return Replicate() if kind is torch.nn.Embedding else self.desired_input_layouts[0]


class SequenceParallel(ParallelStyle):
    """A norm or dropout whose input is shared out along the sequence; parameters are replicated."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        cut = self.sequence_sharding[0]

        def before(mod: Any, inputs: tuple, mesh: DeviceMesh) -> tuple:
            if not isinstance(inputs[0], torch.Tensor):
                raise ValueError(f"expecting input of {mod} to be a torch.Tensor, got {inputs[0]}")
            return (_laid(inputs[0], mesh, cut, cut), *inputs[1:])

        def after(mod: Any, outputs: Any, mesh: DeviceMesh) -> Any:
            return _local(outputs, self.use_local_output)

        return distribute_module(module, device_mesh, None, before, after)


def _as_tuple(layouts: Layouts) -> tuple[Placement | None, ...]:
    if layouts is None:
        return ()
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _check_same(given: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    if len(given) != len(wanted):
        raise ValueError(f"{what}_layouts and desired_{what}_layouts should have same length!")


class PrepareModuleInput(ParallelStyle):
    """The inputs of a module laid as wanted; None leaves one as it is."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts = _as_tuple(input_layouts)
        self.desired_input_layouts = _as_tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        _check_same(self.input_layouts, self.desired_input_layouts, "input")
        _check_same(self.input_kwarg_layouts, self.desired_input_kwarg_layouts, "input_kwarg")

    def _one(self, value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None or not isinstance(value, torch.Tensor):
            return value
        return _local(_laid(value, mesh, given, wanted), self.use_local_output)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        def before(mod: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
            if self.input_layouts and len(args) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            pairs = zip(args, self.input_layouts, self.desired_input_layouts, strict=False)
            made = tuple(self._one(value, device_mesh, *laid) for value, *laid in pairs)
            named = {
                key: self._one(value, device_mesh, self.input_kwarg_layouts.get(key),
                               self.desired_input_kwarg_layouts.get(key))
                for key, value in kwargs.items()
            }  # fmt: skip
            return (made if self.input_layouts else args), named

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """The results of a module laid as wanted; None leaves one as it is."""

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.output_layouts = _as_tuple(output_layouts)
        self.desired_output_layouts = _as_tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        _check_same(self.output_layouts, self.desired_output_layouts, "output")

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        def after(mod: Any, inputs: Any, outputs: Any) -> Any:
            several = outputs if isinstance(outputs, tuple) else (outputs,)
            if len(several) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            made = tuple(
                value if given is None or not isinstance(value, torch.Tensor)
                else _local(_laid(value, device_mesh, given, wanted), self.use_local_output)
                for value, given, wanted in zip(several, self.output_layouts,
                                                self.desired_output_layouts, strict=True)
            )  # fmt: skip
            return made if isinstance(outputs, tuple) else made[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """The inputs and the results of a module laid as wanted."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False, output_layouts: Layouts = None,
        desired_output_layouts: Layouts = None, use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
