"""What a group of processes must be able to do, and the group of one process.

`ProcessGroup` is the interface: `collectives.py` checks arguments and calls it, so another way to
send is one more class here. Tensors that receive are written in place; each method gives a `Work`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn

import rushlight as torch


class ReduceOp(enum.Enum):
    """How values of several processes become one; of one process each gives its value."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


# PyTorch's name of the enumeration inside its class.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Backend(str):
    """The name of a way to send, in small letters."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI)

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {name!r}")
        return str.__new__(cls, name.lower())


class Work:
    """A collective that was started; in a group of one it is done."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    is_success = is_completed

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        """A future that has the result."""
        future = torch.futures.Future()
        future.set_result(self._result)
        return future


class ProcessGroup:
    """The interface. ranks: the processes' numbers in the whole program."""

    def __init__(self, ranks: Sequence[int], backend: str, name: str = "0") -> None:
        self.ranks, self._backend = list(ranks), Backend(backend)
        self.group_name, self.group_desc = name, "default_pg" if name == "0" else "undefined"

    def rank(self) -> int:
        """The number of this process in the group."""
        raise NotImplementedError

    def size(self) -> int:
        """How many processes there are."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the backend."""
        return str(self._backend)

    def _need(self, what: str) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} cannot {what}")

    def allreduce(self, tensor: Any, op: Any = ReduceOp.SUM) -> Work:
        """Each process's tensor becomes what `op` makes of all."""
        self._need("allreduce")

    def broadcast(self, tensor: Any, root: int = 0) -> Work:
        """Each process's tensor becomes that of `root`."""
        self._need("broadcast")

    def allgather(self, outputs: Sequence[Any], tensor: Any) -> Work:
        """outputs[i] becomes the tensor of process i."""
        self._need("allgather")

    def reduce_scatter(self, output: Any, inputs: Sequence[Any], op: Any = ReduceOp.SUM) -> Work:
        """The output of process i becomes what `op` makes of all processes' inputs[i]."""
        self._need("reduce_scatter")

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> Work:
        """outputs[i] of process j becomes inputs[j] of process i."""
        self._need("alltoall")

    def allgather_object(self, value: Any) -> list[Any]:
        """The values of all processes."""
        self._need("allgather_object")

    def barrier(self) -> Work:
        """Wait for all."""
        self._need("barrier")


def _check(tensors: Sequence[Any], op: Any = ReduceOp.SUM) -> None:
    """Tensors of one dtype, and an operation, as a transport would need them."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                "Invalid function argument. Expected parameter `tensor` of type torch.Tensor, got "
                f"{type(tensor)} instead."
            )
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, as ReduceOp.SUM, got {op!r:.80}")
    if any(tensor.dtype != tensors[0].dtype for tensor in tensors):
        raise ValueError(
            "Invalid usage of tensors with different dtypes Found "
            + " and ".join(map(str, dict.fromkeys(tensor.dtype for tensor in tensors)))
        )


class OneProcessGroup(ProcessGroup):
    """The group of one: what would come back is what was given."""

    def __init__(self, backend: str = "gloo", name: str = "0") -> None:
        super().__init__([0], backend, name)

    def rank(self) -> int:
        return 0

    def allreduce(self, tensor: Any, op: Any = ReduceOp.SUM) -> Work:
        _check([tensor], op)
        return Work([tensor])

    def broadcast(self, tensor: Any, root: int = 0) -> Work:
        _check([tensor])
        return Work([tensor])

    def allgather(self, outputs: Sequence[Any], tensor: Any) -> Work:
        return self.alltoall(outputs, [tensor])

    def reduce_scatter(self, output: Any, inputs: Sequence[Any], op: Any = ReduceOp.SUM) -> Work:
        _check([output], op)
        return self.alltoall([output], inputs)

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> Work:
        _check([*outputs, *inputs])
        with torch.no_grad():
            outputs[0].copy_(inputs[0].reshape(outputs[0].shape))
        return Work([outputs[0]])

    def allgather_object(self, value: Any) -> list[Any]:
        return [value]

    def barrier(self) -> Work:
        return Work()
