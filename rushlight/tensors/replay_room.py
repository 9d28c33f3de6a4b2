"""Memory for what a replay makes, and the addresses that its program runs on.

In: the memory of the inputs. Out: memory for each result, and the table of addresses. Always true:
memory is written again only where nobody else can see it. What stays the same from call to call
(temporaries of a small program, places of inputs that are updated where they are) is in the table
already.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.engine.programs import Layout, Program
from rushlight.runtime.allocator import ALIGN
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.tensors.tensor import Tensor

SMALL_BYTES = 1 << 14  # results that live and die together share a block up to this size
KEPT_ARENA_BYTES = 1 << 20
SLAB_BYTES, SLOT_BYTES = 1 << 12, ALIGN

_address = operator.attrgetter("address")
_foreign = operator.attrgetter("foreign")
_like = operator.attrgetter("_shape", "_dtype", "_view", "_grad")
_storage = operator.attrgetter("_storage")
_node = operator.attrgetter("node")
_leaf = operator.attrgetter("leaf")
_buffer = operator.attrgetter("buffer")


class Room:
    """`own`: results that stay with the model; `others`: results that go to the caller."""

    def __init__(
        self, program: Program, layout: Layout, inputs: int, own: Sequence[int],
        others: Sequence[int], grads: Sequence[int],
    ) -> None:  # fmt: skip
        reuse: Mapping[int, int] = program.plan.meta["reuse"]
        self.inputs, self.layout = inputs, layout
        self.empty: list[Any] = [None] * len(layout.result_bytes)
        self.pointers = np.zeros(len(program.plan.buffers), np.int64)
        taken = list(reuse.items())
        self.taken_at = np.array([number for number, _ in taken], np.int64)
        self.taken_from = np.array([source for _, source in taken], np.int64)
        fresh = [r for r in (*own, *others, *grads) if inputs + r not in reuse]
        self.fresh, self.fresh_at = fresh, np.array([inputs + r for r in fresh], np.int64)
        self.over = [(n - inputs, s) for n, s in taken if inputs <= n < inputs + len(self.empty)]
        bytes_of = layout.result_bytes
        self.own = Block([(r, bytes_of[r]) for r in own if r in fresh])
        self.grads = Block([(r, bytes_of[r]) for r in grads if r in fresh])
        self.others = [(r, bytes_of[r]) for r in others if r in fresh]
        self.slab = Slab()
        self._large: Buffer | None = None
        self.arena: Buffer | None = None
        if 0 < layout.arena_bytes <= KEPT_ARENA_BYTES:
            self.arena = allocate(layout.arena_bytes)
            self._set_arena(self.arena)

    def _set_arena(self, arena: Buffer) -> None:
        temps = self.layout.temp_offsets
        if len(temps):
            self.pointers[-len(temps) :] = temps + arena.address

    def take(self, buffers: Sequence[Buffer], held: Mapping[int, Buffer]) -> list[Buffer]:
        """A buffer per result; the addresses are in the table then. `held`: memory that results
        get."""
        results, pointers = self.empty.copy(), self.pointers
        self.own.take(results)
        if held:
            for result, buffer in held.items():
                results[result] = buffer
        else:
            self.grads.take(results)
        for result, nbytes in self.others:
            results[result] = self.slab.take(nbytes) if nbytes <= SLOT_BYTES else allocate(nbytes)
        for result, source in self.over:
            results[result] = buffers[source]
        pointers[: self.inputs] = list(map(_address, buffers))
        if self.fresh:
            pointers[self.fresh_at] = [results[result].address for result in self.fresh]
        if self.arena is None and self.layout.arena_bytes:
            # Held by the table's owner until the next call.
            self._large = allocate(self.layout.arena_bytes)
            self._set_arena(self._large)
        pointers[self.taken_at] = pointers[self.taken_from]
        return results

    def done(self) -> None:
        """The program has run: temporaries of a large program are given back."""
        self._large = None


class Block:
    """Memory of several results: small ones share a block."""

    def __init__(self, results: Iterable[tuple[int, int]]) -> None:
        self.small: list[tuple[int, int, int]] = []
        self.large: list[tuple[int, int]] = []
        self.total = 0
        for result, nbytes in results:
            if nbytes > SMALL_BYTES:
                self.large.append((result, nbytes))
            else:
                self.small.append((result, nbytes, self.total))
                self.total += -(-nbytes // ALIGN) * ALIGN

    def take(self, results: list[Any]) -> None:
        if self.small:
            block = allocate(self.total)
            start = block.address
            for result, nbytes, offset in self.small:
                results[result] = Buffer(start + offset, nbytes, block, False)
        for result, nbytes in self.large:
            results[result] = allocate(nbytes)


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

    results: of each gradient; likes: (shape, dtype, no view, no history) of the tensors
    """

    def __init__(
        self, owners: Sequence[Any], results: Sequence[int], likes: Sequence[tuple]
    ) -> None:
        self.owners, self.results, self.likes = owners, results, list(likes)

    def find(self, tensors: Sequence[Tensor]) -> dict[int, Buffer]:
        """result -> memory of the old gradient; empty if one of them is not free."""
        owners = [tensors[o] if o.__class__ is int else o for o in self.owners]
        grads = [owner._grad.grad for owner in owners]
        del owners
        if set(map(type, grads)) != {Tensor} or list(map(_like, grads)) != self.likes:
            return {}
        # Held by its owner, the list and the call; a storage is the tensor's counter, too.
        if set(map(getrefcount, grads)) != {3}:
            return {}
        storages = list(map(_storage, grads))
        if set(map(getrefcount, storages)) != {4}:
            return {}
        nodes = list(map(_node, storages))
        if set(map(getrefcount, nodes)) != {3} or set(map(_leaf, nodes)) != {"buffer"}:
            return {}
        buffers = list(map(_buffer, nodes))
        if set(map(getrefcount, buffers)) != {3} or any(map(_foreign, buffers)):
            return {}
        return dict(zip(self.results, buffers, strict=True))
