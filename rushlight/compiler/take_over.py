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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rushlight.compiler.step import Step, may_fail
from rushlight.compiler.tile.inplace import reads_for
from rushlight.compiler.tile.kernel import Kernel
from rushlight.ir.node import Node


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
        failing = [self.levels[i] for i, step in enumerate(self.steps) if may_fail(step)]
        self.first_level = max(failing, default=-1) + 1
        for step, kernel in enumerate(self.steps):
            if isinstance(kernel, Kernel) and not kernel.inplace:
                self._choose(step, kernel)
        return self.taken

    def _take(self, step: int, result: int, source: int) -> None:
        self.taken[result] = source
        self.taker[source] = step

    def _choose(self, step: int, kernel: Kernel) -> None:
        """Results that are made from few inputs choose first: a moment is made from its old value,
        a weight from its old value and from moments."""
        choices = []
        for result in kernel.nodes:
            if result is not None and self.number[result] in self.results:
                sources = [
                    s for s in kernel.nodes if s in self.donated and _fits(kernel, s, result)
                ]
                made_from = reads_for(kernel.program, kernel.buffer_of(result))
                near = [s for s in sources if kernel.buffer_of(s) in made_from]
                choices.append((len(near), result, near + [s for s in sources if s not in near]))
        for _, result, sources in sorted(choices, key=lambda choice: choice[0]):
            for source in sources:
                if self._is_free(step, self.number[source]):
                    self._take(step, self.number[result], self.number[source])
                    break

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
