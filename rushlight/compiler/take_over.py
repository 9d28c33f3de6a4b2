"""Which results of a plan are written over the memory of an input that nobody needs any more.

In: steps with their levels (steps of one level run side by side, level after level), what they read
and write, and the inputs that may be overwritten. Out: result number -> input number; steps that
nobody waits for may get a later level on the way.

A result takes over the memory of an input of its size when its kernel reads it only where it writes
(tile/inplace.py), everybody else who reads it runs on an earlier level, and no run can end on the
kernel's level or later: one that fails must not have changed it. A kernel that only makes results
(the update of a weight) can wait for the others: the gradient of the layer's input, say, reads the
weight too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rushlight.compiler.step import Step, may_fail
from rushlight.compiler.tile.kernel import Kernel
from rushlight.ir.node import Node

FAR = 1 << 30  # the result is not made from the input; its memory fits all the same


@dataclass
class TakeOver:
    """levels    of the steps; changed where a step waits
    reads     buffer numbers that each step reads
    waited    steps whose results another step reads
    number    node -> buffer number
    results   numbers of the results
    donated   inputs that may be overwritten
    """

    steps: Sequence[Step]
    levels: list[int]
    reads: Sequence[set[int]]
    waited: set[int]
    number: Mapping[object, int]
    results: frozenset[int]
    donated: frozenset[Node]
    taken: dict[int, int] = field(default_factory=dict)
    taker: dict[int, int] = field(default_factory=dict)

    def run(self) -> dict[int, int]:
        """Forced by kernels that update in place; otherwise as the module says."""
        for step, kernel in enumerate(self.steps):
            for result, source in kernel.inplace if isinstance(kernel, Kernel) else ():
                self._take(step, self.number[result], self.number[source])
        failing = {i for i, step in enumerate(self.steps) if may_fail(step)}
        self.first_level = max((self.levels[i] for i in failing), default=-1) + 1
        safe = [(i, step) for i, step in enumerate(self.steps) if i not in failing]
        pairs = [pair for i, step in safe for pair in self._pairs(i, step)]
        for _, step, result, source in sorted(pairs, key=lambda pair: pair[0]):
            if result not in self.taken and self._is_free(step, source):
                self._take(step, result, source)
        return self.taken

    def _take(self, step: int, result: int, source: int) -> None:
        self.taken[result] = source
        self.taker[source] = step

    def _pairs(self, number: int, step: Step) -> Iterator[tuple[int, int, int, int]]:
        """(distance, step, result, input) of what fits. The distance is that of the input from the
        result in the expression of the result: a new weight is made from the old one by the last
        few operations, and from anything else by more. So each takes its own, and stays in place.
        """
        if not isinstance(step, Kernel) or step.inplace:
            return
        for result in step.nodes:
            if result is None or self.number[result] not in self.results:
                continue
            distances = step.distances(result)
            for source in step.nodes:
                if source in self.donated and _fits(step, source, result):
                    distance = distances.get(step.buffer_of(source), FAR)
                    yield distance, number, self.number[result], self.number[source]

    def _is_free(self, step: int, source: int) -> bool:
        """May the step overwrite the input, now or after waiting?"""
        if source in self.taker:
            return False
        others = [i for i, read in enumerate(self.reads) if source in read and i != step]
        level = max([self.first_level, *(self.levels[other] + 1 for other in others)])
        if self.levels[step] >= level:
            return True
        if step in self.waited or any(
            self.taker.get(buffer, step) != step and self.levels[self.taker[buffer]] <= level
            for buffer in self.reads[step]
        ):
            return False
        self.levels[step] = level
        return True


def _fits(kernel: Kernel, source: Node | None, result: Node) -> bool:
    """The result has the source's size, and each element needs only its own of the source."""
    assert source is not None
    same_count = source.numel() == result.numel()
    same_size = source.dtype.itemsize == result.dtype.itemsize
    return same_count and same_size and kernel.reads_own_element(source, result)
