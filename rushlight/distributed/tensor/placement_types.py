"""Placements: how a tensor lies on one axis of a mesh."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = ["Placement", "Partial", "Replicate", "Shard", "_StridedShard"]


class Placement:
    """The base of the three kinds."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Is it cut into parts (along `dim`)?"""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Has each process all of it?"""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Has each process a part of a sum (or of what `reduce_op` says)?"""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True, repr=False)
class Shard(Placement):
    """Cut along dimension `dim`.

    >>> Shard(1), str(Shard(1))
    (Shard(dim=1), 'S(1)')
    """

    dim: int

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """Size and start of the part of process `rank`.

        >>> Shard.local_shard_size_and_offset(10, 4, 3)
        (1, 9)
        """
        chunk = -(-curr_local_size // num_chunks)
        start = min(rank * chunk, curr_local_size)
        return min(chunk, curr_local_size - start), start


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """Cut along `dim` into `split_factor` groups, of each of which a process has a part. As in
    PyTorch it is no `Shard`.

    >>> _StridedShard(0, split_factor=2)
    _StridedShard(dim=0, sf=2)
    """

    dim: int
    split_factor: int = field(kw_only=True)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class Replicate(Placement):
    """Each process has all of it."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """The value is what `reduce_op` makes of all processes' tensors."""

    reduce_op: str = "sum"

    LINEAR_REDUCE_OPS = ("sum", "avg")
    ALL_REDUCE_OPS = ("sum", "avg", "min", "max", "product")

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
