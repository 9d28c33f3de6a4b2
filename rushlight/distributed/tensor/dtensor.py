"""DTensor: a tensor that lies on a mesh of processes.

In: a process's own part, a mesh, a placement for each axis. Out: a tensor whose functions are those
of the whole. On a mesh of one process the part is the whole, so a DTensor shares its memory and
history with it, and only placements are to be worked out (`propagate.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import rushlight as torch
from rushlight.distributed.device_mesh import DeviceMesh, mesh_resources
from rushlight.distributed.tensor.placement_types import Placement, Replicate, Shard
from rushlight.distributed.tensor.propagate import out_placements
from rushlight.overrides.dispatch import turn_on
from rushlight.overrides.state import Setting

# Functions whose plain tensors are told apart by the caller, not computed with.
_MIXING = frozenset(("copy_", "set_", "__set__", "_local_scalar_dense"))


@dataclass(frozen=True)
class DTensorSpec:
    """Mesh and placements."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]

    @property
    def device_mesh(self) -> DeviceMesh:
        return self.mesh


def normalized(placements: Any, mesh: DeviceMesh, ndim: int) -> tuple[Placement, ...]:
    """One placement for each axis; dimensions counted from the front."""
    if placements is None:
        return tuple(Replicate() for _ in range(mesh.ndim))
    placements = tuple(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    made = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(f"placements: got {placement!r}, expected Shard, Replicate or Partial")
        if isinstance(placement, Shard):
            dim = placement.dim + ndim if placement.dim < 0 else placement.dim
            if not 0 <= dim < max(ndim, 1):
                raise ValueError(
                    f"Sharding dim {placement.dim} greater than or equal to tensor ndim {ndim}"
                )
            placement = type(placement)(dim) if dim != placement.dim else placement
        made.append(placement)
    return tuple(made)


def require_mesh(mesh: DeviceMesh | None) -> DeviceMesh:
    return mesh_resources.get_current_mesh() if mesh is None else mesh


def wrapped(tensor: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """The DTensor of a process's part; same memory, same history."""
    turn_on()
    made = tensor.as_subclass(DTensor)
    made._mesh, made._placements = mesh, tuple(placements)
    return made


def plain(tensor: Any) -> Any:
    """The process's part as a plain tensor; same memory, same history."""
    return tensor.as_subclass(torch.Tensor)


def _distributed_in(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _distributed_in(value)
        elif isinstance(value, dict):
            yield from _distributed_in(value.values())


class DTensor(torch.Tensor):
    """A tensor on a mesh; made by `distribute_tensor` or `DTensor.from_local`."""

    __module__ = "rushlight.distributed.tensor"
    _mesh: DeviceMesh
    _placements: tuple[Placement, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("DTensor: use `distribute_tensor` or `DTensor.from_local` to make one")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        """Call the function with the parts, and say how the results lie on the mesh."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        tensors = list(_distributed_in((args, kwargs)))
        spread = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
        loose = [t for t in tensors if not isinstance(t, DTensor) and t.dim() > 0]
        local = [t for t in spread if t._is_managed]
        other = next((t for t in spread if t._mesh.ndim != spread[0]._mesh.ndim), None)
        # Their placements say nothing of each other's axes.
        if other is not None and not local and not name.startswith("_foreach"):
            raise RuntimeError(
                f"Cannot run aten.{name}.default on inputs with different meshes: got "
                f"{spread[0]._mesh} and {other._mesh}"
            )
        if loose and name not in _MIXING and len(local) < len(spread):
            raise RuntimeError(
                f"aten.{name}.default got mixed torch.Tensor and DTensor, need to convert all "
                "torch.Tensor to DTensor before calling distributed operators!"
            )
        with Setting(subclasses=False):
            result = func(*args, **kwargs)
        if (loose and name not in _MIXING) or not spread:
            return result
        return _wrap_all(result, name, spread, args, kwargs)

    # Parts and wholes ---------------------------------------------------------------------

    @staticmethod
    def from_local(
        local_tensor: Any, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Any = None, stride: Any = None,
    ) -> DTensor:  # fmt: skip
        """The tensor of which this process has `local_tensor`; gradients flow to it.

        shape: of the whole, which must be that of the parts together.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(f"the local_tensor argument only accepts torch.Tensor but got "
                               f"{type(local_tensor)} value.")  # fmt: skip
        if shape is not None and tuple(shape) != tuple(local_tensor.shape):
            raise ValueError(
                f"from_local: shape={tuple(shape)}; the parts of one process make up "
                f"{tuple(local_tensor.shape)}"
            )
        mesh = require_mesh(device_mesh)
        local = local_tensor.view_as(local_tensor) if local_tensor.requires_grad else local_tensor
        return wrapped(local, mesh, normalized(placements, mesh, local_tensor.dim()))

    def to_local(self, *, grad_placements: Any = None) -> Any:
        """This process's part; gradients flow back."""
        local = plain(self)
        return local.view_as(local) if local.requires_grad else local

    def full_tensor(self, *, grad_placements: Any = None) -> Any:
        """The whole as a plain tensor."""
        return self.to_local()

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
        *, async_op: bool = False, forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> DTensor:  # fmt: skip
        """The same tensor, laid otherwise."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = self._mesh if device_mesh is None else device_mesh
        new = normalized(placements, mesh, self.dim())
        if any(p.is_partial() and p != old for p, old in zip(new, self._placements, strict=True)):
            raise RuntimeError("Can not redistribute to Partial, redistributing to Partial is for "
                               "internal use only!")  # fmt: skip
        local = plain(self)
        if forward_dtype is not None:
            local = local.to(forward_dtype)
        local = local.view_as(local) if local.requires_grad else local
        return wrapped(local, mesh, new)

    @property
    def device_mesh(self) -> DeviceMesh:
        return self._mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        return self._placements

    @property
    def _spec(self) -> DTensorSpec:
        return DTensorSpec(self._mesh, self._placements)

    @property
    def _local_tensor(self) -> Any:
        return plain(self)

    _is_managed = False  # does a wrapper (FSDP) bring it together before it is used?

    # The object ---------------------------------------------------------------------------

    @property
    def grad(self) -> Any:
        """The gradient, laid as the tensor is."""
        found = plain(self).grad
        return None if found is None else wrapped(found, self._mesh, self._placements)

    @grad.setter
    def grad(self, value: Any) -> None:
        plain(self).grad = plain(value) if isinstance(value, DTensor) else value

    def _as_parameter(self, requires_grad: bool) -> DTensor:
        """What `nn.Parameter(tensor)` gives."""
        made = torch.Tensor._make_subclass(DTensorParameter, plain(self.detach()), requires_grad)
        made._mesh, made._placements = self._mesh, self._placements
        return made

    def _refuse(self, name: str) -> NoReturn:
        raise RuntimeError(f".{name}() is not supported for tensor subclasses.")

    def numpy(self, *, force: bool = False) -> Any:
        """Refused, as in PyTorch: ask the part or the whole."""
        self._refuse("numpy")

    def tolist(self) -> Any:
        """Refused, as in PyTorch: ask the part or the whole."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got DTensor")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        local = plain(self).detach().requires_grad_(self.is_leaf and self.requires_grad)
        return (
            f"DTensor(local_tensor={local!r}, device_mesh={self._mesh}, "
            f"placements={self._placements})"
        )

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = wrapped(plain(self).detach().clone(), self._mesh, self._placements)
            copied = copied._as_parameter(self.requires_grad) if _is_parameter(self) else copied
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        parts = (plain(self).detach(), self._mesh, self._placements, self.requires_grad)
        return _rebuild, (*parts, _is_parameter(self))


class DTensorParameter(DTensor, torch.nn.Parameter):
    """A DTensor that is a parameter of a module; it shows as what it is in PyTorch."""

    __module__ = "rushlight.distributed.tensor"


DTensorParameter.__name__ = DTensorParameter.__qualname__ = "DTensor"


def _is_parameter(tensor: Any) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


def _rebuild(
    local: Any, mesh: DeviceMesh, placements: Any, requires_grad: bool, parameter: bool
) -> DTensor:
    made = wrapped(local, mesh, placements)
    return made._as_parameter(requires_grad) if parameter else made.requires_grad_(requires_grad)


def _wrap_all(result: Any, name: str, spread: list[Any], args: tuple, kwargs: dict) -> Any:
    if isinstance(result, DTensor) and hasattr(result, "_placements"):
        return result
    if isinstance(result, torch.Tensor):
        laid = out_placements(name, spread, args, kwargs, result.shape)
        return wrapped(result, spread[0]._mesh, laid)
    if isinstance(result, list | tuple) and not isinstance(result, torch.Size):
        items = [_wrap_all(item, name, spread, args, kwargs) for item in result]
        return type(result)(items)
    return result
