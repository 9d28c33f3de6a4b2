"""DeviceMesh: the processes as a grid with named axes.

In: the grid of process numbers. Out: a group for each axis. Today a mesh has one process, so each
axis has size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.distributed.group import get_rank, get_world_size, init_process_group, is_initialized
from rushlight.distributed.process_group import OneProcessGroup, ProcessGroup

__getattr__ = _names.getattr_of(__name__)
__all__ = ["init_device_mesh", "DeviceMesh", "_mesh_resources"]


class _Entered:
    meshes: list[DeviceMesh] = []  # noqa: RUF012  (one list for the program, as in PyTorch)


class _Resources:
    """PyTorch's `_mesh_resources`: the mesh that is entered."""

    @property
    def mesh_stack(self) -> list[DeviceMesh]:
        return _Entered.meshes

    def get_current_mesh(self) -> DeviceMesh:
        if not _Entered.meshes:
            raise RuntimeError("No device mesh is currently active!")
        return _Entered.meshes[-1]

    def get_root_mesh(self, mesh: DeviceMesh) -> DeviceMesh:
        return mesh._root


mesh_resources = _mesh_resources = _Resources()


class DeviceMesh:
    """A grid of processes.

    device_type: "cpu", without an index. mesh: the numbers of the processes, nested lists or a
    tensor. mesh_dim_names: one for each axis. `mesh["dp"]` is the part along one axis; `with mesh:`
    makes it the mesh of `distribute_tensor`.
    """

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None, _init_backend: bool = True, _root: Any = None,
    ) -> None:  # fmt: skip
        if not is_initialized() and _init_backend:
            init_process_group()
        if isinstance(mesh, torch.Tensor) and mesh.device.type not in ("cpu",):
            raise ValueError(f"`mesh` must be a CPU tensor, got {mesh}")
        grid = torch.as_tensor([get_rank()] if mesh is None else mesh).to(torch.int32)
        size = get_world_size()
        if grid.numel() > size:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {size}, but found "
                f"{grid.numel()} ranks!"
            )
        self.device_type = device_type
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self.mesh, self._shape = grid, tuple(grid.shape)
        self._inside = get_rank() in grid.flatten().tolist()
        self._root: DeviceMesh = self if _root is None else _root
        self._flattened: dict[str, DeviceMesh] = {}
        self._groups = [OneProcessGroup() for _ in self._shape]

    # Questions ----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, of all or along one axis."""
        return prod(self._shape) if mesh_dim is None else self._shape[mesh_dim]

    def get_rank(self) -> int:
        """The number of this process in the whole program."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process is in the grid; None when it is not in it."""
        return tuple(0 for _ in self._shape) if self._inside else None

    def _axis(self, mesh_dim: int | str | None, what: str) -> int:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                f"Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.{what}",
            )
        if isinstance(mesh_dim, str):
            names = self.mesh_dim_names or ()
            if mesh_dim not in names:
                raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist in {names}.")
            return names.index(mesh_dim)
        return mesh_dim or 0

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The number of this process along one axis; it may be left out where there is one."""
        self._axis(mesh_dim, "")
        return 0

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of the processes along one axis."""
        return self._groups[self._axis(mesh_dim, "")]

    def get_all_groups(self) -> list[ProcessGroup]:
        return list(self._groups)

    # Parts --------------------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along these axes."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if wanted == self.mesh_dim_names:
            return self
        flat = self._root._flattened
        if len(wanted) == 1 and wanted[0] in flat:
            return flat[wanted[0]]
        known = [*self.mesh_dim_names, *flat]
        if any(name not in self.mesh_dim_names for name in wanted):
            raise KeyError(
                f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {known}."
            )
        return self._part([1] * len(wanted), wanted)

    def _part(self, shape: Sequence[int], names: Sequence[str] | None) -> DeviceMesh:
        grid = self.mesh.reshape(tuple(shape))
        return DeviceMesh(self.device_type, grid, mesh_dim_names=names, _root=self._root)

    def _flatten(self, mesh_dim_name: str | None = None, *_: Any) -> DeviceMesh:
        """All axes as one, which can be had by its name from the whole mesh."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self.mesh_dim_names)
        return self._root._flattened.setdefault(name, self._part([self.size()], [name]))

    def _unflatten(
        self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str], *_: Any
    ) -> DeviceMesh:
        """One axis as several."""
        at, names = self._axis(dim, ""), list(self.mesh_dim_names or ())
        shape = [*self._shape[:at], *mesh_sizes, *self._shape[at + 1 :]]
        return self._part(shape, [*names[:at], *mesh_dim_names, *names[at + 1 :]])

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """The axes of several parts of one mesh."""
        first = device_mesh_list[0]
        names = [name for mesh in device_mesh_list for name in mesh.mesh_dim_names or ()]
        return first._part([1] * sum(mesh.ndim for mesh in device_mesh_list), names)

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """The mesh whose axes are these groups."""
        groups = list(group) if isinstance(group, list | tuple) else [group]
        if mesh is None and len(groups) > 1:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        grid = torch.tensor(groups[0].ranks) if mesh is None else mesh
        made = DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names)
        made._groups = groups
        return made

    # The object ---------------------------------------------------------------------------

    def __enter__(self) -> DeviceMesh:
        _Entered.meshes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _Entered.meshes.pop()

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.mesh_dim_names, self._shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        if names:
            pairs = zip(names, self._shape, strict=True)
            shape = f"({', '.join(f'{name}={size}' for name, size in pairs)})"
        else:
            shape = str(self._shape)
        return f"DeviceMesh({shape}, '{self.device_type}', stride={((),) * self.ndim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.device_type, self._shape, self.mesh_dim_names)


def _rebuild(device_type: str, shape: tuple[int, ...], names: tuple[str, ...] | None) -> DeviceMesh:
    return init_device_mesh(device_type, shape, mesh_dim_names=names)


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:  # fmt: skip
    """The mesh of all processes, in this shape; forms the default group when there is none.

    Raises RuntimeError when the mesh has more places than there are processes, when names and shape
    differ in length, or when the device has an index.
    """
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}",
            )
        if len(shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and "
                f"len(mesh_shape):{len(shape)}.",
            )
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    grid = torch.arange(prod(shape), dtype=torch.int32).reshape(shape)
    return DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names)
