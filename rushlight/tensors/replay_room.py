"""Memory for what a replay makes, and the addresses that its program runs on.

In: the memory of the inputs. Out: memory for each result, and the table of addresses. Always true:
memory is written again only where nobody else can see it. What stays the same from call to call
(temporaries of a small program, places of inputs that are updated where they are) is in the table
already.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.engine.program import Layout, Program
from rushlight.runtime.allocator import ALIGN
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.runtime.shared_block import SharedBlock
from rushlight.tensors.tensor import Tensor

KEPT_ARENA_BYTES = 1 << 20
SLAB_BYTES, SLOT_BYTES = 1 << 12, ALIGN

_address = operator.attrgetter("address")


class Room:
    """`own`: results that stay with the model; `others`: results that go to the caller; `grads`:
    gradients that may be held."""

    def __init__(
        self, program: Program, layout: Layout, inputs: int, own: Sequence[int],
        others: Sequence[int], grads: Sequence[int],
    ) -> None:  # fmt: skip
        reuse: Mapping[int, int] = program.plan.reuse
        bytes_of = layout.result_bytes
        self.inputs, self.layout = inputs, layout
        self.empty: list[Any] = [None] * len(bytes_of)
        self.pointers = np.zeros(len(program.plan.buffers), np.int64)
        # Numbers of the plan that lie where an input does.
        self.taken_at = np.array(list(reuse.keys()), np.int64)
        self.taken_from = np.array(list(reuse.values()), np.int64)
        self.over = [(n - inputs, s) for n, s in reuse.items() if 0 <= n - inputs < len(bytes_of)]

        def fresh(results: Sequence[int]) -> list[tuple[int, int]]:
            return [(r, bytes_of[r]) for r in results if inputs + r not in reuse]

        self.own, self.grads, self.others = (
            SharedBlock(fresh(own)),
            SharedBlock(fresh(grads)),
            fresh(others),
        )
        self.own_at = [result for result, _ in fresh(own)]
        self.grads_at = [inputs + result for result in grads]
        self.addresses: list[int] = []
        self.grad_addresses: list[int] = []
        self.slab = Slab()
        self.arena: Buffer | None = None
        if 0 < layout.arena_bytes <= KEPT_ARENA_BYTES:
            self.arena = allocate(layout.arena_bytes)
            self._set_arena(self.arena)

    def _set_arena(self, arena: Buffer) -> None:
        temps = self.layout.temp_offsets
        if len(temps):
            self.pointers[-len(temps) :] = temps + arena.address

    def take(self, addresses: list[int], held: Sequence[Buffer]) -> list[Buffer]:
        """Buffers of the results that are new; all addresses are in the table then. `addresses`: of
        the inputs. `held`: memory that the gradients get; () where they are new, too."""
        results, pointers, inputs = self.empty.copy(), self.pointers, self.inputs
        if self.own_at:
            self.own.take(results)
            for result in self.own_at:
                pointers[inputs + result] = results[result].address
        if not held and self.grads_at:
            self.grads.take(results)
            held = [results[at - inputs] for at in self.grads_at]
        for result, nbytes in self.others:
            made = self.slab.take(nbytes) if nbytes <= SLOT_BYTES else allocate(nbytes)
            results[result] = made
            pointers[inputs + result] = made.address
        of_grads = list(map(_address, held))
        if of_grads != self.grad_addresses:
            pointers[self.grads_at] = self.grad_addresses = of_grads
        if addresses != self.addresses:
            pointers[:inputs] = self.addresses = addresses
            pointers[self.taken_at] = pointers[self.taken_from]
        return results

    def with_arena(self) -> Buffer | None:
        """Memory for the temporaries of a large program, to be held while it runs."""
        if self.arena is not None or not self.layout.arena_bytes:
            return None
        arena = allocate(self.layout.arena_bytes)
        self._set_arena(arena)
        return arena


class Slab:
    """Memory for single numbers: a loss that is kept holds its neighbors, 64 bytes each."""

    def __init__(self) -> None:
        self.left = 0
        self.block: Any = None

    def take(self, nbytes: int) -> Buffer:
        if not self.left:
            self.block, self.left = allocate(SLAB_BYTES), SLAB_BYTES // SLOT_BYTES
        self.left -= 1
        return Buffer(self.block.address + self.left * SLOT_BYTES, nbytes, self.block, False)


class HeldGrads:
    """Gradients that a call makes anew: where the old ones are seen by nobody else, the new values
    are written over them, and the tensors stay.

    likes: (shape, dtype) of the tensors, which are plain ones
    """

    def __init__(self, owners: Sequence[Any], likes: Sequence[tuple[Any, Any]]) -> None:
        self.parts = [
            (owner, shape, dtype) for owner, (shape, dtype) in zip(owners, likes, strict=True)
        ]

    def find(self, tensors: Sequence[Tensor]) -> Sequence[Buffer]:
        """The memory of the old gradients; () if one of them is not free."""
        found = []
        for owner, shape, dtype in self.parts:
            meta = (tensors[owner] if owner.__class__ is int else owner)._grad
            grad = meta.grad
            storage = grad._storage
            node = storage.node
            if (
                grad.__class__ is not Tensor or grad._shape != shape or grad._dtype is not dtype
                or grad._view is not None or grad._grad is not None or node.leaf != "buffer"
            ):  # fmt: skip
                return ()
            buffer = node.buffer
            # A tensor is held by its owner, a storage by the tensor, also as its counter, a node
            # and a buffer by what they belong to; all by a name here and the look itself. (Looks
            # at slots: one at a name is no holder since CPython 3.14.)
            if (
                getrefcount(meta.grad) != 3 or getrefcount(grad._storage) != 4
                or getrefcount(storage.node) != 3 or getrefcount(node.buffer) != 3
                or buffer.foreign
            ):  # fmt: skip
                return ()
            found.append(buffer)
        return found
