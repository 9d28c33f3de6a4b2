"""Values that a gradient function saved: registered holders, so that a flush keeps or recomputes
them, and the version that the tensor had."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.mode import STATE
from rushlight.autograd.node import GradFn
from rushlight.autograd.protocol import TENSORS
from rushlight.ir.node import Node


class Saved:
    """One saved value: the node, and the version its tensor had."""

    __slots__ = ("holder", "counter", "version", "output_of", "packed", "unpack")

    def __init__(self, node: Node, counter: Any, output_of: Any) -> None:
        self.packed = self.unpack = None
        if STATE.pack_hooks:
            pack, self.unpack = STATE.pack_hooks[-1]
            tensor = TENSORS.make(node)
            self.packed, self.holder = pack(tensor), None
        else:
            self.holder = hold(node)
        self.counter = counter
        self.version = counter.version if counter is not None else 0
        self.output_of = output_of

    def node(self) -> Node:
        if self.counter is not None and self.counter.version != self.version:
            raise RuntimeError(self._modified())
        if self.unpack is not None:
            return TENSORS.value(self.unpack(self.packed))
        assert self.holder is not None  # kept unless hooks packed the value
        return self.holder.node

    def _modified(self) -> str:
        node = self.holder.node if self.holder is not None else TENSORS.value(self.packed)
        where = ""
        owner = self.output_of() if self.output_of is not None else None
        fn = owner if isinstance(owner, GradFn) or owner is None else owner.grad_fn
        if fn is not None:
            number = 0 if fn is owner else owner.output_nr  # type: ignore[union-attr]
            where = f", which is output {number} of {fn.name().removesuffix('Backward0')},"
        return (
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{type_name(node)} {list(node.shape)}]{where} is at version "
            f"{self.counter.version}; expected version {self.version} instead. Hint: enable "
            "anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )


def hold(node: Node) -> Any:
    """A holder that flushes know, so that the memory is kept. A number needs none."""
    return _Plain(node) if node.leaf in ("const", "scalar") else TENSORS.hold(node)


class _Plain:
    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def type_name(value: Any) -> str:
    """torch.FloatTensor and so on."""
    return f"torch.{value.dtype.scalar_name}Tensor"
